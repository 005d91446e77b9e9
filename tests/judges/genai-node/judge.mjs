// Asks through Google's SDK for Node; ../protocol/judge_protocol.mjs says how.

import { GoogleGenAI } from '@google/genai';

import { CITY, KEY, TIMEOUT, TOOL, main } from '../protocol/judge_protocol.mjs';

const client = (ask) =>
  new GoogleGenAI({
    apiKey: KEY,
    httpOptions: { baseUrl: ask.url, timeout: TIMEOUT, retryOptions: { attempts: 1 } },
  });

// generateContent and streamGenerateContent.
function gemini(ask) {
  const { models } = client(ask);
  const weather = { name: TOOL, description: 'The weather', parametersJsonSchema: CITY };
  const question = {
    model: ask.model,
    contents: ask.say,
    ...(ask.tools && { config: { tools: [{ functionDeclarations: [weather] }] } }),
  };
  return {
    async *pieces() {
      if (ask.stream) yield* await models.generateContentStream(question);
      else yield await models.generateContent(question);
    },
    hear: hearContent,
  };
}

// Every piece of a stream is a response of its own.
function hearContent(heard, response) {
  const [candidate] = response.candidates ?? [];
  for (const part of candidate?.content?.parts ?? []) {
    if (part.thought) heard.reasoning += part.text ?? '';
    else heard.text += part.text ?? '';
    const called = part.functionCall;
    if (called) heard.call(called.id, called.name, called.args);
  }
  heard.finish = candidate?.finishReason ?? response.promptFeedback?.blockReason ?? heard.finish;
  const usage = response.usageMetadata;
  if (usage) heard.used(usage.promptTokenCount, usage.candidatesTokenCount);
}

// Interactions.
function interactions(ask) {
  const { interactions } = client(ask);
  const weather = { type: 'function', name: TOOL, description: 'The weather', parameters: CITY };
  const question = {
    model: ask.model,
    input: ask.say,
    stream: ask.stream,
    ...(ask.tools && { tools: [weather] }),
  };
  const steps = new Map();
  return {
    async *pieces() {
      const answer = await interactions.create(question, { maxRetries: 0, timeout: TIMEOUT });
      if (ask.stream) yield* answer;
      else yield answer;
    },
    hear: ask.stream ? (heard, event) => hearEvent(heard, steps, event) : hearInteraction,
    end: (heard) => {
      for (const step of steps.values()) hearStep(heard, step);
    },
  };
}

const DELTAS = {
  text: (step, delta) => (step.text += delta.text),
  thought_summary: (step, delta) => (step.text += delta.content?.text ?? ''),
  arguments_delta: (step, delta) => (step.pieces += delta.arguments),
};

const EVENTS = {
  'step.start': (steps, event) => steps.set(event.index, { ...event.step, text: '', pieces: '' }),
  'step.delta': (steps, event) => DELTAS[event.delta.type]?.(steps.get(event.index), event.delta),
};

// Events gather in steps, which are heard at the end.
function hearEvent(heard, steps, event) {
  EVENTS[event.event_type]?.(steps, event);
  if (event.interaction?.usage) hearEnd(heard, event.interaction);
  if (event.event_type === 'error') heard.failed(event.error);
}

function hearInteraction(heard, interaction) {
  for (const step of interaction.steps ?? []) {
    const said = [...(step.content ?? []), ...(step.summary ?? [])];
    hearStep(heard, { ...step, text: said.map((part) => part.text ?? '').join('') });
  }
  hearEnd(heard, interaction);
}

const STEPS = {
  model_output: (heard, step) => (heard.text += step.text),
  thought: (heard, step) => (heard.reasoning += step.text),
  function_call: (heard, step) => heard.call(step.id, step.name, step.pieces || step.arguments),
};

function hearStep(heard, step) {
  STEPS[step.type]?.(heard, step);
}

function hearEnd(heard, { status, usage }) {
  heard.finish = status;
  if (usage) heard.used(usage.total_input_tokens, usage.total_output_tokens);
}

await main(import.meta.url, { gemini, 'gemini-interactions': interactions });
