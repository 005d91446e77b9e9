// Asks through Ollama's SDK for Node; ../protocol/judge_protocol.mjs says how.

import { Ollama } from 'ollama';

import { CITY, TIMEOUT, TOOL, main } from '../protocol/judge_protocol.mjs';

// fetch with the time limit that this SDK has none of.
const inTime = (url, init) => {
  const limit = AbortSignal.timeout(TIMEOUT);
  return fetch(url, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, limit]) : limit });
};

function ollama(ask) {
  const client = new Ollama({ host: ask.url, fetch: inTime });
  const weather = {
    type: 'function',
    function: { name: TOOL, description: 'The weather', parameters: CITY },
  };
  const question = {
    model: ask.model,
    messages: [{ role: 'user', content: ask.say }],
    stream: ask.stream,
    ...(ask.tools && { tools: [weather] }),
  };
  return {
    async *pieces() {
      const answer = await client.chat(question);
      if (ask.stream) yield* answer;
      else yield answer;
    },
    hear,
  };
}

function hear(heard, piece) {
  const { message } = piece;
  heard.text += message?.content ?? '';
  heard.reasoning += message?.thinking ?? '';
  for (const { id, function: called } of message?.tool_calls ?? []) {
    heard.call(id, called.name, called.arguments);
  }
  if (!piece.done) return;
  heard.finish = piece.done_reason ?? null;
  heard.used(piece.prompt_eval_count, piece.eval_count);
}

await main(import.meta.url, { ollama });
