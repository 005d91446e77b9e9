// Asks through Vercel's AI SDK; ../protocol/judge_protocol.mjs says how.
//
// `openai-chat-compatible` is the dialect openai-chat, asked through the provider for servers that
// are not OpenAI's.

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, streamText, tool } from 'ai';

import { CITY, KEY, TIMEOUT, TOOL, main } from '../protocol/judge_protocol.mjs';

const openai = (ask) => createOpenAI({ baseURL: `${ask.url}/v1`, apiKey: KEY });

const MODELS = {
  'openai-chat': (ask) => openai(ask).chat(ask.model),
  'openai-responses': (ask) => openai(ask).responses(ask.model),
  'openai-chat-compatible': (ask) =>
    createOpenAICompatible({
      name: 'compatible',
      baseURL: `${ask.url}/v1`,
      apiKey: KEY,
      includeUsage: true,
    })(ask.model),
  anthropic: (ask) => createAnthropic({ baseURL: `${ask.url}/v1`, apiKey: KEY })(ask.model),
  gemini: (ask) =>
    createGoogleGenerativeAI({ baseURL: `${ask.url}/v1beta`, apiKey: KEY })(ask.model),
};

// A tool without `execute` is only asked for.
const WEATHER = tool({ description: 'The weather', inputSchema: jsonSchema(CITY) });

function talk(model, ask) {
  const question = {
    model: model(ask),
    prompt: ask.say,
    maxRetries: 0,
    abortSignal: AbortSignal.timeout(TIMEOUT),
    ...(ask.tools && { tools: { [TOOL]: WEATHER } }),
  };
  return ask.stream ? streamed(question) : whole(question);
}

function streamed(question) {
  return {
    async *pieces() {
      yield* streamText({ ...question, onError: () => {} }).fullStream;
    },
    hear: (heard, part) => PARTS[part.type]?.(heard, part),
  };
}

const PARTS = {
  'text-delta': (heard, part) => (heard.text += part.text),
  'reasoning-delta': (heard, part) => (heard.reasoning += part.text),
  'tool-call': (heard, part) => heard.call(part.toolCallId, part.toolName, part.input),
  error: (heard, part) => heard.failed(part.error),
  finish: (heard, part) => hearEnd(heard, part, part.totalUsage),
};

function whole(question) {
  return {
    async *pieces() {
      yield await generateText(question);
    },
    hear: (heard, result) => {
      heard.text = result.text;
      heard.reasoning = result.reasoningText ?? '';
      for (const call of result.toolCalls) heard.call(call.toolCallId, call.toolName, call.input);
      hearEnd(heard, result, result.usage);
    },
  };
}

function hearEnd(heard, { finishReason, rawFinishReason }, usage) {
  heard.finish = rawFinishReason ?? finishReason;
  heard.used(usage.inputTokens, usage.outputTokens);
}

globalThis.AI_SDK_LOG_WARNINGS = false;
const talks = Object.entries(MODELS).map(([dialect, model]) => [
  dialect,
  (ask) => talk(model, ask),
]);
await main(import.meta.url, Object.fromEntries(talks));
