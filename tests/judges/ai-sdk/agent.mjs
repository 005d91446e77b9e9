// An agent of Vercel's AI SDK: it works on files with two tools until the model is done.

import { readFileSync, writeFileSync } from 'node:fs';

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

const KEY = 'sk-canary-of-a-test';
const TEXT = { type: 'string' };

const tools = {
  write_file: tool({
    description: 'Write a file.',
    inputSchema: jsonSchema({
      type: 'object',
      properties: { path: TEXT, content: TEXT },
      required: ['path', 'content'],
    }),
    execute: ({ path, content }) => {
      writeFileSync(path, content);
      return `${path} is written`;
    },
  }),
  read_file: tool({
    description: 'Read a file.',
    inputSchema: jsonSchema({ type: 'object', properties: { path: TEXT }, required: ['path'] }),
    execute: ({ path }) => readFileSync(path, 'utf8'),
  }),
};

const MODELS = {
  'openai-chat': ({ url, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).chat(model),
  'openai-responses': ({ url, model }) =>
    createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).responses(model),
  anthropic: ({ url, model }) => createAnthropic({ baseURL: `${url}/v1`, apiKey: KEY })(model),
  gemini: ({ url, model }) =>
    createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: KEY })(model),
};

async function work(task) {
  const question = {
    model: MODELS[task.dialect](task),
    system: task.system,
    prompt: task.say,
    tools,
    stopWhen: stepCountIs(9),
    maxRetries: 0,
  };
  return task.stream ? await streamText(question).text : (await generateText(question)).text;
}

globalThis.AI_SDK_LOG_WARNINGS = false;
const { tasks } = JSON.parse(readFileSync(0, 'utf8'));
const said = [];
for (const task of tasks) said.push(await work(task));
console.log(JSON.stringify(said));
