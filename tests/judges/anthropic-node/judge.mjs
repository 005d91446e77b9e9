// Asks through Anthropic's SDK for Node; ../protocol/judge_protocol.mjs says how.

import Anthropic from '@anthropic-ai/sdk';

import { CITY, KEY, TIMEOUT, TOOL, main } from '../protocol/judge_protocol.mjs';

function anthropic(ask) {
  const client = new Anthropic({ baseURL: ask.url, apiKey: KEY, maxRetries: 0, timeout: TIMEOUT });
  const question = {
    model: ask.model,
    max_tokens: 1024,
    messages: [{ role: 'user', content: ask.say }],
    ...(ask.tools && {
      tools: [{ name: TOOL, description: 'The weather', input_schema: CITY }],
    }),
  };
  return ask.stream ? streamed(client, question) : whole(client, question);
}

// Every event as it comes; the SDK's helper adds them up to a message that grows.
function streamed(client, question) {
  const stream = client.messages.stream(question);
  let message;
  return {
    async *pieces() {
      for await (const _ of stream) yield stream.currentMessage;
      yield await stream.finalMessage();
    },
    hear: (_, piece) => {
      message = piece ?? message;
    },
    end: (heard) => message && understand(heard, message),
  };
}

function whole(client, question) {
  return {
    async *pieces() {
      yield await client.messages.create(question);
    },
    hear: understand,
  };
}

const BLOCKS = {
  text: (heard, block) => (heard.text += block.text),
  thinking: (heard, block) => (heard.reasoning += block.thinking),
  tool_use: (heard, block) => heard.call(block.id, block.name, block.input),
};

function understand(heard, message) {
  for (const block of message.content ?? []) BLOCKS[block.type]?.(heard, block);
  if (message.stop_reason === 'refusal') heard.refusal = message.stop_details?.explanation ?? '';
  heard.finish = message.stop_reason ?? null;
  heard.used(message.usage?.input_tokens, message.usage?.output_tokens);
}

await main(import.meta.url, { anthropic });
