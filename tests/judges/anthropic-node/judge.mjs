// A judge for Anthropic's SDK for Node; ../protocol/judge_protocol.mjs has the protocol.

import Anthropic from '@anthropic-ai/sdk';

import {
  API_KEY,
  TIMEOUT_MS,
  TOOL_NAME,
  TOOL_PARAMETERS,
  main,
} from '../protocol/judge_protocol.mjs';

function anthropic(request) {
  const client = new Anthropic({
    baseURL: request.url,
    apiKey: API_KEY,
    maxRetries: 0,
    timeout: TIMEOUT_MS,
  });
  const params = {
    model: request.model,
    max_tokens: 1024,
    messages: [{ role: 'user', content: request.prompt }],
    ...(request.hasTools && {
      tools: [{ name: TOOL_NAME, description: 'The weather', input_schema: TOOL_PARAMETERS }],
    }),
  };
  return request.isStreaming ? prepareStream(client, params) : prepareCreate(client, params);
}

// Reads every event as it arrives; the SDK's helper accumulates them in one message.
function prepareStream(client, params) {
  const stream = client.messages.stream(params);
  let message;
  return {
    async *streamChunks() {
      for await (const _ of stream) yield stream.currentMessage;
      yield await stream.finalMessage();
    },
    readChunk: (_, snapshot) => {
      message = snapshot ?? message;
    },
    finish: (response) => message && readMessage(response, message),
  };
}

function prepareCreate(client, params) {
  return {
    async *streamChunks() {
      yield await client.messages.create(params);
    },
    readChunk: readMessage,
  };
}

const BLOCK_READERS = {
  text: (response, block) => (response.text += block.text),
  thinking: (response, block) => (response.reasoning += block.thinking),
  tool_use: (response, block) => response.addToolCall(block.id, block.name, block.input),
};

function readMessage(response, message) {
  for (const block of message.content ?? []) BLOCK_READERS[block.type]?.(response, block);
  if (message.stop_reason === 'refusal') {
    response.refusal = message.stop_details?.explanation ?? '';
  }
  response.finishReason = message.stop_reason ?? null;
  response.setUsage(message.usage?.input_tokens, message.usage?.output_tokens);
}

await main(import.meta.url, { anthropic });
