// Asks through OpenAI's SDK for Node, as every judge is asked; ../protocol/judge_protocol.mjs says how.

import OpenAI from 'openai';

import { CITY, KEY, TIMEOUT, TOOL, main } from '../protocol/judge_protocol.mjs';

const client = (ask) =>
  new OpenAI({ baseURL: `${ask.url}/v1`, apiKey: KEY, maxRetries: 0, timeout: TIMEOUT });

// Asks; a stream gives its events, all else one answer.
const asking = (ask, create) =>
  async function* pieces() {
    const answer = await create();
    if (ask.stream) yield* answer;
    else yield answer;
  };

const WEATHER = { name: TOOL, description: 'The weather', parameters: CITY };

function chat(ask) {
  const { completions } = client(ask).chat;
  const question = {
    model: ask.model,
    messages: [{ role: 'user', content: ask.say }],
    stream: ask.stream,
    ...(ask.stream && { stream_options: { include_usage: true } }),
    ...(ask.tools && { tools: [{ type: 'function', function: WEATHER }] }),
  };
  const calls = [];
  return {
    pieces: asking(ask, () => completions.create(question)),
    hear: (heard, piece) => {
      const [choice] = piece.choices ?? [];
      if (choice) hearMessage(heard, calls, choice.delta ?? choice.message);
      hearEnd(heard, choice, piece);
    },
    end: (heard) => {
      for (const { id, name, pieces } of calls) heard.call(id, name, pieces);
    },
  };
}

// A message, or a piece of one; the pieces of a call share its index.
function hearMessage(heard, calls, said) {
  heard.text += said.content ?? '';
  heard.reasoning += said.reasoning_content ?? said.reasoning ?? '';
  heard.refusal += said.refusal ?? '';
  for (const [at, { index, id, function: called }] of (said.tool_calls ?? []).entries()) {
    const call = (calls[index ?? at] ??= { id, name: '', pieces: '' });
    call.name += called?.name ?? '';
    call.pieces += called?.arguments ?? '';
  }
}

function hearEnd(heard, choice, { usage }) {
  heard.finish = choice?.finish_reason ?? heard.finish;
  if (usage) heard.used(usage.prompt_tokens, usage.completion_tokens);
}

function completions(ask) {
  const question = { model: ask.model, prompt: ask.say, stream: ask.stream };
  if (ask.stream) question.stream_options = { include_usage: true };
  return {
    pieces: asking(ask, () => client(ask).completions.create(question)),
    hear: (heard, piece) => {
      const [choice] = piece.choices ?? [];
      heard.text += choice?.text ?? '';
      hearEnd(heard, choice, piece);
    },
  };
}

function responses(ask) {
  const question = {
    model: ask.model,
    input: ask.say,
    stream: ask.stream,
    ...(ask.tools && { tools: [{ type: 'function', strict: false, ...WEATHER }] }),
  };
  return {
    pieces: asking(ask, () => client(ask).responses.create(question)),
    hear: ask.stream ? (heard, event) => EVENTS[event.type]?.(heard, event) : hearResponse,
  };
}

const reasoned = (heard, event) => (heard.reasoning += event.delta);
const ended = (heard, event) => hearStatus(heard, event.response);
const EVENTS = {
  'response.output_text.delta': (heard, event) => (heard.text += event.delta),
  'response.refusal.delta': (heard, event) => (heard.refusal += event.delta),
  'response.reasoning_summary_text.delta': reasoned,
  'response.reasoning_text.delta': reasoned,
  'response.output_item.done': (heard, event) => hearCall(heard, event.item),
  'response.completed': ended,
  'response.incomplete': ended,
  'response.failed': ended,
  // The SDK gives this event like any other, and throws nothing.
  error: (heard, event) => heard.failed({ ...event, type: event.code }),
};

function hearResponse(heard, response) {
  for (const item of response.output ?? []) {
    for (const part of [...(item.content ?? []), ...(item.summary ?? [])]) {
      if (item.type === 'reasoning') heard.reasoning += part.text;
      else heard.text += part.text ?? '';
      heard.refusal += part.refusal ?? '';
    }
    hearCall(heard, item);
  }
  hearStatus(heard, response);
}

function hearCall(heard, item) {
  if (item.type === 'function_call') heard.call(item.call_id, item.name, item.arguments);
}

function hearStatus(heard, { status, error, incomplete_details: details, usage }) {
  heard.finish = details?.reason ?? status ?? null;
  if (error) heard.failed(error);
  if (usage) heard.used(usage.input_tokens, usage.output_tokens);
}

const TALKS = { 'openai-chat': chat, 'openai-completions': completions, 'openai-responses': responses };

export const answer = (document) => main(import.meta.url, TALKS, document);
