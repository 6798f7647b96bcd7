// Runs the lab and opens its status page in a headless Chromium.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const executable = '/usr/bin/chromium';
export const patience = 30e3; // ms, for the system to do what it is to do

// missing says why there is no browser to test with; null if there is one.
export const missing = existsSync(executable) ? null : `there is no ${executable}: install Debian's package chromium`;

export const launch = () => chromium.launch({
  executablePath: executable,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

const directory = mkdtempSync(join(tmpdir(), 'radwitness-page-'));
const program = join(directory, 'local');
process.on('exit', () => rmSync(directory, { recursive: true, force: true }));

// build builds the lab. go run would not hand its signals on.
export function build() {
  const built = spawnSync('go', ['build', '-o', program, './infra/local'], { stdio: 'inherit' });
  assert.equal(built.status, 0, 'building the lab');
}

// start runs the lab, and returns the address of its status page, and how to stop it.
export async function start(args, environment = {}) {
  const child = spawn(program, ['-log', join(directory, 'log'), '-env', join(directory, 'env'), ...args], {
    env: { ...process.env, ...environment }, stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let output = '';
  const url = await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      output += data;
      const found = /status page: (http:\S+)/.exec(output);
      if (found) resolve(found[1]);
    });
    child.once('exit', () => reject(new Error(`the lab ended: ${output}`)));
  });
  return { url, ended, stop: () => { child.kill('SIGTERM'); return ended; } };
}

// until waits for what a function finds in the page to be true.
export async function until(page, what, find, argument) {
  try {
    await page.waitForFunction(find, argument, { timeout: patience });
  } catch (error) {
    assert.fail(`${what}: ${error.message}\non the page:\n${await page.locator('body').innerText()}`);
  }
}
