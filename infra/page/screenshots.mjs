// Takes the pictures of the status page in docs/, during the demo's outage.

import { build, launch, patience, start } from './browser.mjs';

build();
const demo = await start(['-demo', '-serve', '127.0.0.1:0']);
const browser = await launch();

async function open(settings) {
  const page = await (await browser.newContext({ ...settings, reducedMotion: 'reduce' })).newPage();
  await page.addInitScript(() => localStorage.setItem('radwitness-range', '5m'));
  await page.goto(demo.url);
  return page;
}

// when takes a picture as soon as the page is as wanted and has drawn that.
async function when(page, path, fullPage, wanted) {
  await page.waitForFunction(wanted, null, { timeout: 2 * patience, polling: 100 });
  await page.evaluate(() => new Promise(requestAnimationFrame));
  await page.screenshot({ path, fullPage });
}

const desktop = await open({ viewport: { width: 1280, height: 720 }, colorScheme: 'light' });
const phone = await open({ viewport: { width: 375, height: 812 }, deviceScaleFactor: 1.5, colorScheme: 'dark' });
await Promise.all([
  // The directory is back on one server: traffic goes to it only.
  when(desktop, 'docs/status-page-light.png', true, () => {
    const log = document.querySelector('.log')?.textContent ?? '';
    const pills = [...document.querySelectorAll('.pill')].map((pill) => pill.textContent).join();
    return log.includes('fail-open ends') && pills === 'OUT,OUT,IN';
  }),
  when(phone, 'docs/status-page-dark-phone.png', false, () => document.querySelector('p.failopen:not([hidden])')
    && document.querySelectorAll('.server[data-standing=down]').length === 3),
]);
await browser.close();
console.log(`the demo's exit code: ${await demo.ended}`);
