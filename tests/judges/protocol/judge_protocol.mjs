// The protocol that every Node judge speaks: requests on stdin, responses on stdout.
//
// A judge gives `main` one function for each dialect.  The function creates its client for a
// request, and returns how to send it (`streamChunks`), how to read each chunk (`readChunk`) and,
// if needed, what to do at the end (`finish`).  Only an exception of the client is part of a
// response: an exception of the judge itself ends the program.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export const API_KEY = 'sk-of-a-judge';
export const TIMEOUT_MS = 20_000; // how long a client may wait

export const TOOL_NAME = 'get_weather';
// The arguments of the one tool that is offered, as a JSON schema.
export const TOOL_PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};

// The JSON names of the fields of a response, and the properties of JudgeResponse.
const RESPONSE_FIELDS = {
  text: 'text',
  reasoning: 'reasoning',
  refusal: 'refusal',
  calls: 'toolCalls',
  finish: 'finishReason',
  usage: 'usage',
  error: 'error',
};

// What a client has reported so far; null if it reported nothing.
class JudgeResponse {
  text = '';
  reasoning = '';
  refusal = '';
  toolCalls = [];
  finishReason = null;
  usage = null;
  error = null;

  addToolCall(id, name, args) {
    this.toolCalls.push({ id: id ?? null, name, arguments: parseArguments(args) });
  }

  setUsage(inputTokens, outputTokens) {
    if (inputTokens == null && outputTokens == null) return;
    this.usage = { input: inputTokens ?? null, output: outputTokens ?? null };
  }

  setError(error) {
    this.error = {
      type: errorType(error),
      status: httpStatus(error),
      message: String(error?.message ?? error),
    };
  }
}

// The name of an exception.  Some clients give the parsed body of an error: then its own type.
function errorType(error) {
  if (!(error instanceof Error)) return error?.type ?? error?.code ?? typeof error;
  return error.name === 'Error' ? error.constructor.name : error.name;
}

// The JSON value of a call's arguments; the text itself if it is not JSON.
function parseArguments(args) {
  if (typeof args !== 'string') return args;
  try {
    return JSON.parse(args);
  } catch {
    return args;
  }
}

// The HTTP status of an exception, or else of its cause.
function httpStatus(error) {
  for (let current = error; current != null; current = current.cause) {
    const status = current.status ?? current.statusCode ?? current.status_code;
    if (typeof status === 'number') return status;
  }
  return null;
}

// Sends a request and passes every chunk to `readChunk`.  Only exceptions out of `streamChunks` are
// the client's; those out of `readChunk` are the judge's own.
async function readResponse({ streamChunks, readChunk, finish = () => {} }) {
  const response = new JudgeResponse();
  const iterator = streamChunks()[Symbol.asyncIterator]();
  for (;;) {
    let result;
    try {
      result = await iterator.next();
    } catch (error) {
      response.setError(error);
      break;
    }
    if (result.done) break;
    readChunk(response, result.value);
  }
  finish(response);
  return response;
}

// The JSON documents on stdin, one a line.
export async function* readDocuments() {
  for await (const line of createInterface({ input: process.stdin })) yield JSON.parse(line);
}

// The protocol's JSON names of a request, as properties.
const parseRequest = (url, { id, dialect, model, stream, say, tools }) => ({
  id,
  url,
  dialect,
  model,
  isStreaming: stream,
  prompt: say,
  hasTools: tools,
});

// Sends the requests of all documents; `judgeUrl` is the judge's own import.meta.url.
export async function main(judgeUrl, prepareByDialect) {
  for await (const document of readDocuments()) {
    await sendRequests(judgeUrl, prepareByDialect, document);
  }
}

// Sends the requests of a document, and prints one line for each.
export async function sendRequests(judgeUrl, prepareByDialect, { url, asks }) {
  const abilities = JSON.parse(readFileSync(new URL('abilities.json', judgeUrl), 'utf8'));
  for (const fields of asks) {
    const request = parseRequest(url, fields);
    const supported = abilities[request.dialect][request.isStreaming ? 'stream' : 'whole'];
    const response = await readResponse(prepareByDialect[request.dialect](request));
    const entries = Object.entries(RESPONSE_FIELDS).map(([name, property]) => [
      name,
      supported.includes(name) ? response[property] : null,
    ]);
    console.log(JSON.stringify({ id: request.id, ...Object.fromEntries(entries) }));
  }
}
