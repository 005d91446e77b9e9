// What every Node judge shares: asks come in, answers go out.
//
// A judge gives `main` one function for each dialect.  The function makes its client for an ask,
// and gives what asks it and what hears its pieces.  Only an exception of the client is an answer:
// one of the judge itself ends the program.

import { readFileSync } from 'node:fs';

export const KEY = 'sk-of-a-judge';
export const TIMEOUT = 20_000; // milliseconds that a client may wait

export const TOOL = 'get_weather';
// The one tool that is offered, and its arguments as a JSON schema.
export const CITY = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};

const FIELDS = ['text', 'reasoning', 'refusal', 'calls', 'finish', 'usage', 'error'];

// What a client has told so far; null where it told nothing.
class Heard {
  text = '';
  reasoning = '';
  refusal = '';
  calls = [];
  finish = null;
  usage = null;
  error = null;

  call(id, name, args) {
    this.calls.push({ id: id ?? null, name, arguments: parsed(args) });
  }

  used(input, output) {
    if (input == null && output == null) return;
    this.usage = { input: input ?? null, output: output ?? null };
  }

  failed(error) {
    this.error = {
      type: typeOf(error),
      status: statusOf(error),
      message: String(error?.message ?? error),
    };
  }
}

// The name of an exception; of the parsed body of an error, which some clients give, its own type.
function typeOf(error) {
  if (!(error instanceof Error)) return error?.type ?? error?.code ?? typeof error;
  return error.name === 'Error' ? error.constructor.name : error.name;
}

// The JSON value of a call's arguments; the text itself where it is none.
export function parsed(args) {
  if (typeof args !== 'string') return args;
  try {
    return JSON.parse(args);
  } catch {
    return args;
  }
}

// The HTTP status that an exception knows, or else its cause.
function statusOf(error) {
  for (let at = error; at != null; at = at.cause) {
    const status = at.status ?? at.statusCode ?? at.status_code;
    if (typeof status === 'number') return status;
  }
  return null;
}

// Asks; gives every piece to `hear`.  The client's exceptions are told apart from the judge's own
// by where they come from: out of `pieces`, never out of `hear`.
async function hearAll({ pieces, hear, end = () => {} }) {
  const heard = new Heard();
  const source = pieces()[Symbol.asyncIterator]();
  for (;;) {
    let next;
    try {
      next = await source.next();
    } catch (error) {
      heard.failed(error);
      break;
    }
    if (next.done) break;
    hear(heard, next.value);
  }
  end(heard);
  return heard;
}

// Everything that is on stdin: one JSON document.
export const onStdin = () => JSON.parse(readFileSync(0, 'utf8'));

// Answers the asks of a document, one line each; `judge` is the judge's own import.meta.url.
export async function main(judge, talks, { url, asks } = onStdin()) {
  const abilities = JSON.parse(readFileSync(new URL('abilities.json', judge), 'utf8'));
  for (const ask of asks) {
    const told = abilities[ask.dialect][ask.stream ? 'stream' : 'whole'];
    const heard = await hearAll(talks[ask.dialect]({ url, ...ask }));
    const answer = FIELDS.map((field) => [field, told.includes(field) ? heard[field] : null]);
    console.log(JSON.stringify({ id: ask.id, ...Object.fromEntries(answer) }));
  }
}
