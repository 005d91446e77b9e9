// Sends one chat request with OpenAI's SDK, and prints the result as one JSON document:
//
//   echo '{"model": ..., "stream": true, ...}' | node judge.mjs http://127.0.0.1:4777/v1
//
//   {"sha256": of the body's bytes, "pieces": number of reads, "result": chunks or completion}
//   {"error": the exception's class, "status": ..., "message": ...}
//
// `requests` is the number of HTTP requests that the SDK sent.  A document with `asks` is passed
// to protocol_judge.mjs.

import { createHash } from 'node:crypto';

import OpenAI from 'openai';

import { readDocuments } from '../protocol/judge_protocol.mjs';
import { runProtocol } from './protocol_judge.mjs';

const bodyHash = createHash('sha256');
let readCount = 0;
let requestCount = 0;

// fetch that hashes the body and counts its reads; the SDK reads the same body.
async function hashingFetch(url, init) {
  requestCount += 1;
  const response = await fetch(url, init);
  const tap = new TransformStream({
    transform(data, controller) {
      readCount += 1;
      bodyHash.update(data);
      controller.enqueue(data);
    },
  });
  return new Response(response.body?.pipeThrough(tap), response);
}

async function createCompletion(client, params) {
  const completion = await client.chat.completions.create(params);
  if (!params.stream) return completion;
  const chunks = [];
  for await (const chunk of completion) chunks.push(chunk);
  return chunks;
}

async function runChat(params) {
  const client = new OpenAI({
    baseURL: process.argv[2],
    apiKey: 'sk-of-a-judge',
    fetch: hashingFetch,
  });
  try {
    const result = await createCompletion(client, params);
    const sha256 = bodyHash.digest('hex');
    console.log(JSON.stringify({ sha256, pieces: readCount, requests: requestCount, result }));
  } catch (error) {
    const { status, message } = error;
    const name = error.constructor.name;
    console.log(JSON.stringify({ error: name, status, message, requests: requestCount }));
  }
}

for await (const document of readDocuments()) {
  await (document.asks ? runProtocol(document) : runChat(document));
}
