// A judge for Google's SDK for Node; ../protocol/judge_protocol.mjs has the protocol.

import { GoogleGenAI } from '@google/genai';

import {
  API_KEY,
  TIMEOUT_MS,
  TOOL_NAME,
  TOOL_PARAMETERS,
  main,
} from '../protocol/judge_protocol.mjs';

const createClient = (request) =>
  new GoogleGenAI({
    apiKey: API_KEY,
    httpOptions: { baseUrl: request.url, timeout: TIMEOUT_MS, retryOptions: { attempts: 1 } },
  });

// generateContent and streamGenerateContent.
function gemini(request) {
  const { models } = createClient(request);
  const weather = {
    name: TOOL_NAME,
    description: 'The weather',
    parametersJsonSchema: TOOL_PARAMETERS,
  };
  const params = {
    model: request.model,
    contents: request.prompt,
    ...(request.hasTools && { config: { tools: [{ functionDeclarations: [weather] }] } }),
  };
  return {
    async *streamChunks() {
      if (request.isStreaming) yield* await models.generateContentStream(params);
      else yield await models.generateContent(params);
    },
    readChunk: readGenerateContent,
  };
}

// Every chunk of a stream has the type of a complete response.
function readGenerateContent(response, chunk) {
  const [candidate] = chunk.candidates ?? [];
  for (const part of candidate?.content?.parts ?? []) {
    if (part.thought) response.reasoning += part.text ?? '';
    else response.text += part.text ?? '';
    const call = part.functionCall;
    if (call) response.addToolCall(call.id, call.name, call.args);
  }
  response.finishReason =
    candidate?.finishReason ?? chunk.promptFeedback?.blockReason ?? response.finishReason;
  const usage = chunk.usageMetadata;
  if (usage) response.setUsage(usage.promptTokenCount, usage.candidatesTokenCount);
}

// Interactions.
function interactions(request) {
  const { interactions } = createClient(request);
  const weather = {
    type: 'function',
    name: TOOL_NAME,
    description: 'The weather',
    parameters: TOOL_PARAMETERS,
  };
  const params = {
    model: request.model,
    input: request.prompt,
    stream: request.isStreaming,
    ...(request.hasTools && { tools: [weather] }),
  };
  const steps = new Map();
  return {
    async *streamChunks() {
      const result = await interactions.create(params, { maxRetries: 0, timeout: TIMEOUT_MS });
      if (request.isStreaming) yield* result;
      else yield result;
    },
    readChunk: request.isStreaming
      ? (response, event) => readEvent(response, steps, event)
      : readInteraction,
    finish: (response) => {
      for (const step of steps.values()) readStep(response, step);
    },
  };
}

const DELTA_READERS = {
  text: (step, delta) => (step.text += delta.text),
  thought_summary: (step, delta) => (step.text += delta.content?.text ?? ''),
  arguments_delta: (step, delta) => (step.argumentsText += delta.arguments),
};

const EVENT_READERS = {
  'step.start': (steps, event) =>
    steps.set(event.index, { ...event.step, text: '', argumentsText: '' }),
  'step.delta': (steps, event) =>
    DELTA_READERS[event.delta.type]?.(steps.get(event.index), event.delta),
};

// Collects the events in steps, which are read at the end.
function readEvent(response, steps, event) {
  EVENT_READERS[event.event_type]?.(steps, event);
  if (event.interaction?.usage) readFinish(response, event.interaction);
  if (event.event_type === 'error') response.setError(event.error);
}

function readInteraction(response, interaction) {
  for (const step of interaction.steps ?? []) {
    const parts = [...(step.content ?? []), ...(step.summary ?? [])];
    readStep(response, { ...step, text: parts.map((part) => part.text ?? '').join('') });
  }
  readFinish(response, interaction);
}

const STEP_READERS = {
  model_output: (response, step) => (response.text += step.text),
  thought: (response, step) => (response.reasoning += step.text),
  function_call: (response, step) =>
    response.addToolCall(step.id, step.name, step.argumentsText || step.arguments),
};

function readStep(response, step) {
  STEP_READERS[step.type]?.(response, step);
}

function readFinish(response, { status, usage }) {
  response.finishReason = status;
  if (usage) response.setUsage(usage.total_input_tokens, usage.total_output_tokens);
}

await main(import.meta.url, { gemini, 'gemini-interactions': interactions });
