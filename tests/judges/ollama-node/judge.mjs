// A judge for Ollama's SDK for Node; ../protocol/judge_protocol.mjs has the protocol.

import { Ollama } from 'ollama';

import { TIMEOUT_MS, TOOL_NAME, TOOL_PARAMETERS, main } from '../protocol/judge_protocol.mjs';

// fetch with a time limit, which this SDK does not have.
const fetchWithTimeout = (url, init) => {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const signal = init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
  return fetch(url, { ...init, signal });
};

function ollama(request) {
  const client = new Ollama({ host: request.url, fetch: fetchWithTimeout });
  const weather = {
    type: 'function',
    function: { name: TOOL_NAME, description: 'The weather', parameters: TOOL_PARAMETERS },
  };
  const params = {
    model: request.model,
    messages: [{ role: 'user', content: request.prompt }],
    stream: request.isStreaming,
    ...(request.hasTools && { tools: [weather] }),
  };
  return {
    async *streamChunks() {
      const result = await client.chat(params);
      if (request.isStreaming) yield* result;
      else yield result;
    },
    readChunk,
  };
}

function readChunk(response, chunk) {
  const { message } = chunk;
  response.text += message?.content ?? '';
  response.reasoning += message?.thinking ?? '';
  for (const { id, function: call } of message?.tool_calls ?? []) {
    response.addToolCall(id, call.name, call.arguments);
  }
  if (!chunk.done) return;
  response.finishReason = chunk.done_reason ?? null;
  response.setUsage(chunk.prompt_eval_count, chunk.eval_count);
}

await main(import.meta.url, { ollama });
