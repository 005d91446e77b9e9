// An agent built with Vercel's AI SDK: it reads and writes files with two tools until the model
// is done.

import { readFileSync, writeFileSync } from 'node:fs';

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

const API_KEY = 'sk-canary-of-a-test';
const STRING_SCHEMA = { type: 'string' };

const tools = {
  write_file: tool({
    description: 'Write a file.',
    inputSchema: jsonSchema({
      type: 'object',
      properties: { path: STRING_SCHEMA, content: STRING_SCHEMA },
      required: ['path', 'content'],
    }),
    execute: ({ path, content }) => {
      writeFileSync(path, content);
      return `${path} is written`;
    },
  }),
  read_file: tool({
    description: 'Read a file.',
    inputSchema: jsonSchema({
      type: 'object',
      properties: { path: STRING_SCHEMA },
      required: ['path'],
    }),
    execute: ({ path }) => readFileSync(path, 'utf8'),
  }),
};

const CREATE_MODEL = {
  'openai-chat': ({ url, model }) =>
    createOpenAI({ baseURL: `${url}/v1`, apiKey: API_KEY }).chat(model),
  'openai-responses': ({ url, model }) =>
    createOpenAI({ baseURL: `${url}/v1`, apiKey: API_KEY }).responses(model),
  anthropic: ({ url, model }) =>
    createAnthropic({ baseURL: `${url}/v1`, apiKey: API_KEY })(model),
  gemini: ({ url, model }) =>
    createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: API_KEY })(model),
};

// Runs a task to its end and returns the model's last text.
async function runTask(task) {
  const options = {
    model: CREATE_MODEL[task.dialect](task),
    system: task.system,
    prompt: task.say,
    tools,
    stopWhen: stepCountIs(9),
    maxRetries: 0,
  };
  return task.stream ? await streamText(options).text : (await generateText(options)).text;
}

globalThis.AI_SDK_LOG_WARNINGS = false;
const { tasks } = JSON.parse(readFileSync(0, 'utf8'));
const texts = [];
for (const task of tasks) texts.push(await runTask(task));
console.log(JSON.stringify(texts));
