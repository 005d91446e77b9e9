// Asks one chat question with OpenAI's SDK, and prints what came as one JSON document:
//
//   echo '{"model": ..., "stream": true, ...}' | node judge.mjs http://127.0.0.1:4777/v1
//
//   {"sha256": of the body's bytes, "pieces": how many came, "result": chunks or completion}
//   {"error": the exception's class, "status": ..., "message": ...}
//
// `requests` says how often the SDK asked.  A document with `asks` is answered by protocol_judge.mjs.

import { createHash } from 'node:crypto';

import OpenAI from 'openai';

import { onStdin } from '../protocol/judge_protocol.mjs';
import { answer } from './protocol_judge.mjs';

const body = createHash('sha256');
let pieces = 0;
let requests = 0;

// fetch, with an ear on the body: the SDK reads what it would have read anyway.
async function overheard(url, init) {
  requests += 1;
  const response = await fetch(url, init);
  const ear = new TransformStream({
    transform(piece, controller) {
      pieces += 1;
      body.update(piece);
      controller.enqueue(piece);
    },
  });
  return new Response(response.body?.pipeThrough(ear), response);
}

async function ask(client, question) {
  const answer = await client.chat.completions.create(question);
  if (!question.stream) return answer;
  const chunks = [];
  for await (const chunk of answer) chunks.push(chunk);
  return chunks;
}

async function judge(question) {
  const client = new OpenAI({ baseURL: process.argv[2], apiKey: 'sk-of-a-judge', fetch: overheard });
  try {
    const result = await ask(client, question);
    console.log(JSON.stringify({ sha256: body.digest('hex'), pieces, requests, result }));
  } catch (error) {
    const { status, message } = error;
    console.log(JSON.stringify({ error: error.constructor.name, status, message, requests }));
  }
}

const question = onStdin();
await (question.asks ? answer(question) : judge(question));
