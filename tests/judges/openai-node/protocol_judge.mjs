// A judge for OpenAI's SDK for Node, with the protocol of all judges (see
// ../protocol/judge_protocol.mjs).

import OpenAI from 'openai';

import {
  API_KEY,
  TIMEOUT_MS,
  TOOL_NAME,
  TOOL_PARAMETERS,
  sendRequests,
} from '../protocol/judge_protocol.mjs';

const createClient = (request) =>
  new OpenAI({
    baseURL: `${request.url}/v1`,
    apiKey: API_KEY,
    maxRetries: 0,
    timeout: TIMEOUT_MS,
  });

// Sends the request; yields the events of a stream, else one response.
const chunkStreamer = (request, create) =>
  async function* streamChunks() {
    const result = await create();
    if (request.isStreaming) yield* result;
    else yield result;
  };

const WEATHER_FUNCTION = {
  name: TOOL_NAME,
  description: 'The weather',
  parameters: TOOL_PARAMETERS,
};

function chat(request) {
  const { completions } = createClient(request).chat;
  const params = {
    model: request.model,
    messages: [{ role: 'user', content: request.prompt }],
    stream: request.isStreaming,
    ...(request.isStreaming && { stream_options: { include_usage: true } }),
    ...(request.hasTools && { tools: [{ type: 'function', function: WEATHER_FUNCTION }] }),
  };
  const toolCalls = [];
  return {
    streamChunks: chunkStreamer(request, () => completions.create(params)),
    readChunk: (response, chunk) => {
      const [choice] = chunk.choices ?? [];
      if (choice) readMessage(response, toolCalls, choice.delta ?? choice.message);
      readFinish(response, choice, chunk);
    },
    finish: (response) => {
      for (const { id, name, argumentsText } of toolCalls) {
        response.addToolCall(id, name, argumentsText);
      }
    },
  };
}

// Reads a message or a delta of one; the deltas of a tool call share its index.
function readMessage(response, toolCalls, message) {
  response.text += message.content ?? '';
  response.reasoning += message.reasoning_content ?? message.reasoning ?? '';
  response.refusal += message.refusal ?? '';
  for (const [position, delta] of (message.tool_calls ?? []).entries()) {
    const { index, id, function: called } = delta;
    const call = (toolCalls[index ?? position] ??= { id, name: '', argumentsText: '' });
    call.name += called?.name ?? '';
    call.argumentsText += called?.arguments ?? '';
  }
}

function readFinish(response, choice, { usage }) {
  response.finishReason = choice?.finish_reason ?? response.finishReason;
  if (usage) response.setUsage(usage.prompt_tokens, usage.completion_tokens);
}

function completions(request) {
  const params = { model: request.model, prompt: request.prompt, stream: request.isStreaming };
  if (request.isStreaming) params.stream_options = { include_usage: true };
  return {
    streamChunks: chunkStreamer(request, () => createClient(request).completions.create(params)),
    readChunk: (response, chunk) => {
      const [choice] = chunk.choices ?? [];
      response.text += choice?.text ?? '';
      readFinish(response, choice, chunk);
    },
  };
}

function responses(request) {
  const params = {
    model: request.model,
    input: request.prompt,
    stream: request.isStreaming,
    ...(request.hasTools && {
      tools: [{ type: 'function', strict: false, ...WEATHER_FUNCTION }],
    }),
  };
  return {
    streamChunks: chunkStreamer(request, () => createClient(request).responses.create(params)),
    readChunk: request.isStreaming
      ? (response, event) => EVENT_READERS[event.type]?.(response, event)
      : readOpenAIResponse,
  };
}

const readReasoningDelta = (response, event) => (response.reasoning += event.delta);
const readLastEvent = (response, event) => readStatus(response, event.response);
const EVENT_READERS = {
  'response.output_text.delta': (response, event) => (response.text += event.delta),
  'response.refusal.delta': (response, event) => (response.refusal += event.delta),
  'response.reasoning_summary_text.delta': readReasoningDelta,
  'response.reasoning_text.delta': readReasoningDelta,
  'response.output_item.done': (response, event) => readFunctionCall(response, event.item),
  'response.completed': readLastEvent,
  'response.incomplete': readLastEvent,
  'response.failed': readLastEvent,
  // The SDK yields this event like any other, and throws nothing.
  error: (response, event) => response.setError({ ...event, type: event.code }),
};

function readOpenAIResponse(response, openaiResponse) {
  for (const item of openaiResponse.output ?? []) {
    for (const part of [...(item.content ?? []), ...(item.summary ?? [])]) {
      if (item.type === 'reasoning') response.reasoning += part.text;
      else response.text += part.text ?? '';
      response.refusal += part.refusal ?? '';
    }
    readFunctionCall(response, item);
  }
  readStatus(response, openaiResponse);
}

function readFunctionCall(response, item) {
  if (item.type === 'function_call') response.addToolCall(item.call_id, item.name, item.arguments);
}

function readStatus(response, { status, error, incomplete_details: details, usage }) {
  response.finishReason = details?.reason ?? status ?? null;
  if (error) response.setError(error);
  if (usage) response.setUsage(usage.input_tokens, usage.output_tokens);
}

const PREPARE_BY_DIALECT = {
  'openai-chat': chat,
  'openai-completions': completions,
  'openai-responses': responses,
};

export const runProtocol = (document) =>
  sendRequests(import.meta.url, PREPARE_BY_DIALECT, document);
