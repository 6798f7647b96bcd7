// What a person does with the status page, in a real browser and against the lab.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { build, launch, missing, start, until } from './browser.mjs';

if (missing && process.env.CI === 'true') throw new Error(missing);
const options = { skip: missing ?? false };

// An hour's outage in seconds.
const brisk = {
  RADWITNESS_PROBE_INTERVAL: '1s', RADWITNESS_PROBE_FAST_INTERVAL: '200ms', RADWITNESS_PROBE_ATTEMPT_TIMEOUT: '450ms',
  RADWITNESS_PROBE_ATTEMPTS: '2', RADWITNESS_HEALTH_HOLD_DOWN: '6s', RADWITNESS_HEALTH_HOLD_DOWN_MAX: '6s',
  RADWITNESS_RECONCILE_INTERVAL: '1s',
};

let lab;
let browser;

before(async () => {
  if (missing) return;
  build();
  lab = await start(['-serve', '127.0.0.1:0'], brisk);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await lab?.stop();
});

// mend ends all faults, of whatever test.
async function mend() {
  for (const server of ['radius-1', 'radius-2', 'radius-3']) {
    await fetch(`${lab.url}api/lab/fault`, { method: 'POST', body: JSON.stringify({ server, fault: 'none' }) });
  }
}

// open opens the page, runs a test on it, and then demands that the browser had
// nothing to complain of but what was provoked, and asked nobody else for anything.
async function open(settings, run) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...settings });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => {
    const provoked = settings.provoked?.test(message.text());
    if (['error', 'warning'].includes(message.type()) && !provoked) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => complaints.push(`dialog: ${dialog.message()}`));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(lab.url).origin) complaints.push(`request to ${request.url()}`);
  });
  try {
    await mend();
    await settings.prepare?.(page);
    await page.goto(lab.url);
    await page.locator('.server').first().waitFor();
    await run(page);
    assert.deepEqual(complaints, []);
  } finally {
    await context.close();
  }
}

const row = (page, server) => page.locator('.server', { has: page.getByText(server, { exact: true }) });

const fault = (page, server, name) => row(page, server).getByRole('button', { name, exact: true });

const stands = (page, server, standing, traffic) => until(page, `${server} ${standing} ${traffic}`, ([name, state, pill]) => {
  const element = document.getElementById(`server-vpn-auth-${name}`);
  return element.dataset.standing === state && element.querySelector('.pill').textContent === pill;
}, [server, standing, traffic]);

const headline = (page, words) => until(page, `headline "${words}"`, (w) => document.getElementById('headline').textContent.startsWith(w), words);

const allWell = (page) => headline(page, 'All 3 servers are up and in service');

const sideways = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test('all is well', options, () => open({}, async (page) => {
  await allWell(page);
  assert.match(await page.title(), /^✓ All 3 servers/);
  assert.equal(await page.locator('#favicon').getAttribute('href'), 'icon-ok.svg');
  for (const server of ['radius-1', 'radius-2', 'radius-3']) await stands(page, server, 'up', 'IN');
  assert.equal(await page.locator('p.failopen:visible').count(), 0);
  await until(page, 'three lanes of what was up', () => document.querySelectorAll('.timeline .span.up').length > 3);
  await until(page, 'latencies', () => document.querySelectorAll('.timeline .p50').length === 3);
  await until(page, 'who was registered', () => document.querySelector('.log').textContent.includes('radius-3'));
}));

test('a server breaks, is seen to go out, and comes back after its hold-down', options, () => open({}, async (page) => {
  await allWell(page);
  await fault(page, 'radius-2', 'reject-all').click();
  await headline(page, 'radius-2 is out');
  await stands(page, 'radius-2', 'down', 'OUT');
  assert.match(await page.title(), /^✖ radius-2 is out/);
  assert.equal(await page.locator('#favicon').getAttribute('href'), 'icon-bad.svg');
  assert.match(await row(page, 'radius-2').innerText(), /down, it says “Identity store unavailable”/);
  assert.match(await row(page, 'radius-2').innerText(), /in hold-down on the next success/);
  assert.equal(await fault(page, 'radius-2', 'reject-all').getAttribute('aria-pressed'), 'true');
  await until(page, 'what happened, with its reason', () => /radius-2 up -> down.*reject/.test(document.querySelector('.log').textContent));
  await until(page, 'the mark of the deregistration', () => document.querySelector('.timeline .plot .mark.deregister'));
  await until(page, 'an announcement', () => /radius-2 is .*(down|out)/.test(document.getElementById('announcer').textContent));
  assert.equal(await row(page, 'radius-1').locator('.pill').innerText(), 'IN');

  await fault(page, 'radius-2', 'well').click();
  await headline(page, 'radius-2 is out until hold-down ends');
  const left = () => page.evaluate(() => parseInt(document.querySelector('#server-vpn-auth-radius-2 .state .faint').textContent, 10));
  const before = await left();
  assert.ok(before > 0 && before <= 7, `${before} s of the hold-down left`);
  await until(page, 'the countdown to go on', (n) => parseInt(document.querySelector('#server-vpn-auth-radius-2 .state .faint').textContent, 10) < n, before);
  await allWell(page);
}));

test('all servers break: fail-open', options, () => open({}, async (page) => {
  await allWell(page);
  for (const server of ['radius-1', 'radius-2', 'radius-3']) await fault(page, server, 'drop-all').click();
  await page.locator('p.failopen').waitFor();
  assert.match(await page.locator('p.failopen').innerText(), /^Fail-open since \d\d:\d\d:\d\d, for \d+ s: fewer than 1/);
  await headline(page, 'FAIL-OPEN; radius-1, radius-2, radius-3 are down but still in');
  assert.match(await page.title(), /^✖ FAIL-OPEN/);
  await until(page, 'fail-open in the timeline', () => document.querySelector('.timeline .span.failopen'));
  assert.deepEqual(await page.locator('.pill').allInnerTexts(), ['IN', 'IN', 'IN']);
  for (const server of ['radius-1', 'radius-2', 'radius-3']) await fault(page, server, 'well').click();
  await allWell(page);
  assert.equal(await page.locator('p.failopen:visible').count(), 0);
  await until(page, 'both ends of fail-open', () => ['begins', 'ends'].every((w) => document.querySelector('.log').textContent.includes(`fail-open ${w}`)));
}));

test('a target that was removed by hand is put back', options, () => open({}, async (page) => {
  await allWell(page);
  const registered = () => page.locator('.log [data-kind=register]').count();
  await until(page, 'the log', () => document.querySelector('.log [data-kind=register]'));
  const before = await registered();
  await fault(page, 'radius-1', 'remove target').click();
  await until(page, 'another registration', (n) => document.querySelectorAll('.log [data-kind=register]').length > n, before);
  await allWell(page);
}));

test('by keyboard alone', options, () => open({}, async (page) => {
  await allWell(page);
  const focused = (property) => page.evaluate((p) => document.activeElement[p] ?? document.activeElement.getAttribute(p), property);
  const press = (...keys) => keys.reduce((done, key) => done.then(() => page.keyboard.press(key)), Promise.resolve());
  await press('Tab');
  assert.equal(await focused('textContent'), 'Skip to the servers');
  await press('Enter', 'Tab');
  assert.match(await focused('textContent'), /radius-1/, 'the first server is next after the skip link');
  await press('ArrowDown');
  assert.match(await focused('textContent'), /radius-2/);
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, 'solid', 'the focus is to be seen');
  await press('Enter');
  assert.equal(await focused('ariaExpanded'), 'true');
  await until(page, 'counters', () => /requests/.test(document.querySelector('#server-vpn-auth-radius-2-details').textContent));
  await press('Space');
  assert.equal(await page.locator('.details:visible').count(), 0);

  await press('Tab', 'ArrowRight');
  assert.equal(await focused('textContent'), 'reject-all');
  await press('Enter');
  await stands(page, 'radius-2', 'down', 'OUT');
  assert.equal(await focused('textContent'), 'reject-all', 'the focus stays where it was');
  await press('ArrowLeft', 'Space');
  await stands(page, 'radius-2', 'holddown', 'OUT');
  await press('Tab');
  assert.match(await focused('textContent'), /radius-3/, 'a row of switches is one stop');

  await page.locator('.plot').focus();
  await press('End');
  const last = await page.locator('.readout').innerText();
  assert.match(last, /^\d\d:\d\d:\d\d {1,2}radius-2/);
  await press('ArrowLeft');
  assert.notEqual(await page.locator('.readout').innerText(), last);

  await press('j');
  assert.match(await focused('textContent'), /radius-1/);
  await press('?');
  assert.ok(await page.locator('dialog').isVisible());
  await press('Escape');
  assert.ok(!await page.locator('dialog').isVisible());
  const range = () => page.locator('input[name=range]:checked').inputValue();
  assert.equal(await range(), '1h');
  await press('r');
  assert.equal(await range(), '24h');
  await press('?');
  await page.locator('#shortcuts').uncheck();
  await press('Escape', 'r');
  assert.equal(await range(), '24h', 'shortcuts can be switched off');
  await allWell(page);
}));

test('on a phone nothing goes sideways', options, () => open({ viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true }, async (page) => {
  await allWell(page);
  assert.equal(await sideways(page), 0);
  await row(page, 'radius-3').locator('.row').tap();
  await row(page, 'radius-3').locator('.check').waitFor();
  await fault(page, 'radius-3', 'wrong-secret').tap();
  await headline(page, 'radius-3 is out');
  assert.equal(await sideways(page), 0);
  await fault(page, 'radius-3', 'well').tap();
  await allWell(page);
}));

// contrasts finds the texts whose colour is too near to what is behind them (WCAG 2.1, 1.4.3).
function contrasts() {
  const paint = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    const colours = [];
    for (let e = element; e; e = e.parentElement) colours.push(rgba(getComputedStyle(e).backgroundColor));
    return colours.reverse().reduce((below, [r, g, b, a]) => [r, g, b].map((v, i) => v * (a / 255) + below[i] * (1 - a / 255)), [255, 255, 255]);
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
    if (!own || !element.checkVisibility({ visibilityProperty: true }) || element.closest('.sprite, .hidden, .in-span')) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(rgba(element instanceof SVGElement ? style.fill : style.color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${element.textContent.slice(0, 40)} ${element.className.baseVal ?? element.className}: ${ratio.toFixed(2)}`);
  }
  return poor;
}

for (const colorScheme of ['light', 'dark']) {
  test(`${colorScheme}: every text can be read`, options, () => open({ colorScheme, prepare: (page) => invent(page, everyStanding()) }, async (page) => {
    await page.locator('.row').nth(1).click();
    await until(page, 'the timeline', () => document.querySelector('.timeline .label'));
    assert.deepEqual(await page.evaluate(contrasts), []);
    await page.locator('#help').click();
    assert.deepEqual(await page.evaluate(contrasts), []);
  }));
}

test('dark and light, as the system or as chosen', options, () => open({ colorScheme: 'dark' }, async (page) => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.emulateMedia({ colorScheme: 'light' });
  const light = await ground();
  assert.notEqual(light, dark);
  await page.keyboard.press('t');
  assert.equal(await ground(), dark);
  await page.reload();
  await page.locator('.server').first().waitFor();
  assert.equal(await ground(), dark, 'the choice is remembered');
  await page.locator('#theme').click();
  assert.equal(await ground(), light);
}));

test('whoever wants no motion gets none', options, async () => {
  const duration = (page) => page.evaluate(() => getComputedStyle(document.querySelector('.server')).transitionDuration);
  await open({ reducedMotion: 'reduce' }, async (page) => assert.equal(await duration(page), '0s'));
  await open({ reducedMotion: 'no-preference' }, async (page) => assert.notEqual(await duration(page), '0s'));
});

// invent shows the page a report of the test's own.
async function invent(page, change) {
  const report = await (await fetch(`${lab.url}api/report`)).json();
  const invented = change({ name: 'invented', report, lab: { faults: ['none', 'reject-all'], current: {} }, interval_ms: 60000 });
  await page.addInitScript((event) => {
    window.EventSource = class extends EventTarget {
      static CLOSED = 2;
      readyState = 1;
      constructor() {
        super();
        setTimeout(() => this.dispatchEvent(new MessageEvent('report', { data: JSON.stringify(event) })), 0);
      }
    };
  }, invented);
}

// everyStanding is a report in which each standing occurs.
const everyStanding = () => (event) => {
  const [group] = event.report.groups;
  const standings = ['up', 'up, failing', 'holddown', 'down', 'stale', 'unknown', 'drained'];
  group.servers = standings.map((standing, i) => ({
    ...structuredClone(group.servers[0]), name: `ise-${i}`, standing, registered: i % 2, membership: i % 3 ? 'in' : 'out', held_until: event.report.at,
  }));
  Object.assign(group, { fail_open: true, fail_open_since: event.report.at, warnings: ['the prober is silent'], mode: 'observe' });
  return event;
};

test('what a server says is text', options, async () => {
  const words = `</script><img src=x onerror="window.harm=1"><svg onload="window.harm=1"> javascript:alert(1) ${'m'.repeat(253)}`;
  const hostile = (event) => {
    const [group] = event.report.groups;
    group.warnings = [words];
    group.meaning = words;
    group.target_groups[0].error = words;
    group.target_groups[0].unmanaged = [words];
    for (const server of group.servers) {
      Object.assign(server, { reason: words, next: words, drain: { reason: words } });
      for (const check of server.checks) Object.assign(check, { reply_message: words, reason: words, outcome: words, consecutive_failures: 1 });
    }
    group.servers[0].name = words;
    return event;
  };
  const prepare = async (page) => {
    await invent(page, hostile);
    await page.route('**/api/timeline?*', async (route) => {
      const timeline = await (await fetch(route.request().url())).json();
      timeline.marks = [{ at: timeline.to, kind: 'transition', server: words, text: words }];
      timeline.notes = [words];
      timeline.lanes[0].row = words;
      await route.fulfill({ json: timeline });
    });
  };
  for (const width of [1280, 375]) {
    await open({ viewport: { width, height: 800 }, prepare }, async (page) => {
      await page.locator('.row').nth(1).click();
      await until(page, 'the words as they are', (w) => [...document.querySelectorAll('.reply, .log li, .meaning, .warnings li')]
        .filter((e) => e.textContent.includes(w)).length >= 4, words);
      assert.equal(await page.evaluate(() => document.querySelectorAll('img, body script').length), 0);
      assert.equal(await page.evaluate(() => window.harm), undefined);
      assert.equal(await sideways(page), 0);
    });
  }
});

test('the browser itself refuses markup', options, () => open({ provoked: /TrustedHTML/ }, async (page) => {
  const refused = await page.evaluate(() => {
    try {
      document.body.innerHTML = '<p>harm</p>';
      return '';
    } catch (error) {
      return error.message;
    }
  });
  assert.match(refused, /TrustedHTML/);
}));

test('trouble with AWS is told, and what is shown is not passed off as news', options, () => open({
  prepare: (page) => invent(page, (event) => ({ ...event, trouble: { message: 'the AWS session has ended: run aws sso login', since: event.report.at } })),
}, async (page) => {
  await until(page, 'the banner', () => /^No news since .*aws sso login.*What you see is of/.test(document.getElementById('lost').textContent));
  assert.match(await page.title(), /^\? not live/);
  assert.equal(await page.locator('#favicon').getAttribute('href'), 'icon-lost.svg');
  await headline(page, 'Not live. Last seen:');
}));

test('a history that cannot be read is told', options, () => open({
  provoked: /502/, prepare: (page) => page.route('**/api/timeline?*', (route) => route.fulfill({ status: 502, body: 'no access' })),
}, async (page) => {
  await until(page, 'why there is no timeline', () => document.querySelector('.notes').textContent === 'the history cannot be read: no access');
  await allWell(page);
}));

test('a lost connection is told, and taken up again', options, () => open({ provoked: /net::ERR_/ }, async (page) => {
  await allWell(page);
  const { host } = new URL(lab.url);
  await lab.stop();
  await until(page, 'the loss', () => /^Connection lost since \d\d:\d\d:\d\d; trying again. What you see is of \d\d:\d\d:\d\d/.test(document.getElementById('lost').textContent));
  assert.match(await page.title(), /^\? not live/);
  lab = await start(['-serve', host], brisk);
  assert.equal(new URL(lab.url).host, host);
  await allWell(page);
  assert.ok(!await page.locator('#lost').isVisible());
}));
