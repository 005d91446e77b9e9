// A judge for Vercel's AI SDK; ../protocol/judge_protocol.mjs has the protocol.
//
// `openai-chat-compatible` is the dialect openai-chat, sent through the provider for servers that
// are not OpenAI's.

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, streamText, tool } from 'ai';

import {
  API_KEY,
  TIMEOUT_MS,
  TOOL_NAME,
  TOOL_PARAMETERS,
  main,
} from '../protocol/judge_protocol.mjs';

const openai = (request) => createOpenAI({ baseURL: `${request.url}/v1`, apiKey: API_KEY });

const CREATE_MODEL = {
  'openai-chat': (request) => openai(request).chat(request.model),
  'openai-responses': (request) => openai(request).responses(request.model),
  'openai-chat-compatible': (request) =>
    createOpenAICompatible({
      name: 'compatible',
      baseURL: `${request.url}/v1`,
      apiKey: API_KEY,
      includeUsage: true,
    })(request.model),
  anthropic: (request) =>
    createAnthropic({ baseURL: `${request.url}/v1`, apiKey: API_KEY })(request.model),
  gemini: (request) =>
    createGoogleGenerativeAI({ baseURL: `${request.url}/v1beta`, apiKey: API_KEY })(request.model),
};

// Without `execute` the SDK does not run the tool: it only returns the model's calls.
const WEATHER_TOOL = tool({
  description: 'The weather',
  inputSchema: jsonSchema(TOOL_PARAMETERS),
});

function prepareCall(createModel, request) {
  const options = {
    model: createModel(request),
    prompt: request.prompt,
    maxRetries: 0,
    abortSignal: AbortSignal.timeout(TIMEOUT_MS),
    ...(request.hasTools && { tools: { [TOOL_NAME]: WEATHER_TOOL } }),
  };
  return request.isStreaming ? prepareStream(options) : prepareGenerate(options);
}

function prepareStream(options) {
  return {
    async *streamChunks() {
      yield* streamText({ ...options, onError: () => {} }).fullStream;
    },
    readChunk: (response, part) => PART_READERS[part.type]?.(response, part),
  };
}

const PART_READERS = {
  'text-delta': (response, part) => (response.text += part.text),
  'reasoning-delta': (response, part) => (response.reasoning += part.text),
  'tool-call': (response, part) =>
    response.addToolCall(part.toolCallId, part.toolName, part.input),
  error: (response, part) => response.setError(part.error),
  finish: (response, part) => readFinish(response, part, part.totalUsage),
};

function prepareGenerate(options) {
  return {
    async *streamChunks() {
      yield await generateText(options);
    },
    readChunk: (response, result) => {
      response.text = result.text;
      response.reasoning = result.reasoningText ?? '';
      for (const { toolCallId, toolName, input } of result.toolCalls) {
        response.addToolCall(toolCallId, toolName, input);
      }
      readFinish(response, result, result.usage);
    },
  };
}

function readFinish(response, { finishReason, rawFinishReason }, usage) {
  response.finishReason = rawFinishReason ?? finishReason;
  response.setUsage(usage.inputTokens, usage.outputTokens);
}

globalThis.AI_SDK_LOG_WARNINGS = false;
const prepareByDialect = Object.entries(CREATE_MODEL).map(([dialect, createModel]) => [
  dialect,
  (request) => prepareCall(createModel, request),
]);
await main(import.meta.url, Object.fromEntries(prepareByDialect));
