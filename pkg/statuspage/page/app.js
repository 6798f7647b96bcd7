// The page: connects the stream of reports with what is shown of it.

import { h, keyed, set, text } from './dom.js';
import { groupView } from './group.js';
import { follow } from './stream.js';
import { age, clock, now, setClock, zone } from './time.js';
import { changes, groupLevel, summary, worst } from './words.js';

const get = (id) => document.getElementById(id);
const marks = { ok: 'up', warn: 'failing', bad: 'down', lost: 'stale' };
const signs = { ok: '✓', warn: '!', bad: '✖', lost: '?' };

let event = null; // the newest
let lost = null; // when the connection was

// remember keeps a choice of this browser's, as far as that may keep any.
const remember = {
  get(key, otherwise) {
    try { return localStorage.getItem(`radwitness-${key}`) ?? otherwise; } catch { return otherwise; }
  },
  set(key, value) {
    try { localStorage.setItem(`radwitness-${key}`, value); } catch { /* then it is chosen anew next time */ }
  },
};

const views = () => [...(get('groups').keyed ?? new Map()).values()];

function draw() {
  const groups = event?.report?.groups ?? [];
  keyed(get('groups'), groups.map((group) => ({ group, lab: event.lab, interval: event.interval_ms })), ({ group }) => group.name, ({ group }) => {
    const view = groupView(group.name);
    view.setRange(range());
    return view;
  });
  text(get('foot'), event?.report ? `${event.name}. Fleet version ${event.report.fleet_version}. Times are this browser’s: ${zone()}.` : '');
  tick();
}

// tick brings everything up to date that depends on the time.
function tick() {
  const report = event?.report;
  const notLive = lost || event?.trouble;
  const level = notLive ? 'lost' : report ? worst(report.groups.map(groupLevel)) : 'lost';
  const { headline: words, rest } = report ? summary(report) : { headline: event?.trouble ? 'Nothing is known yet' : 'Connecting', rest: '' };
  document.body.dataset.level = level;
  set(get('mark'), 'href', `#icon-${marks[level]}`);
  text(get('headline'), notLive && report ? `Not live. Last seen: ${words}` : words);
  const sum = (count) => report.groups.reduce((n, group) => n + count(group), 0);
  const counts = report ? `${sum((g) => g.registered)} of ${sum((g) => g.servers.length)} in service` : 'radwitness';
  text(get('subline'), [rest, counts, event?.name].filter(Boolean).join(' · '));
  const title = `${signs[level]} ${notLive ? 'not live – ' : ''}${words} – ${event?.name ?? 'radwitness'}`;
  if (document.title !== title) document.title = title;
  set(get('favicon'), 'href', `icon-${level}.svg`);
  get('lost').hidden = !notLive;
  const seen = report ? ` What you see is of ${clock(report.at)}, ${age(now() - Date.parse(report.at))} ago.` : '';
  if (lost) text(get('lost'), `Connection lost since ${clock(lost)}; trying again.${seen}`);
  else if (event?.trouble) text(get('lost'), `No news since ${clock(event.trouble.since)}: ${event.trouble.message}.${seen}`);
  text(get('live'), notLive || !report ? '' : `live, ${age(now() - Date.parse(report.at))} ago`);
  for (const view of views()) view.tick();
}

function announce(news) {
  if (news.length) get('announcer').replaceChildren(h('p', null, news.join('; ')));
}

follow((newest) => {
  const before = event?.report;
  if (lost) announce(['connected again']);
  lost = null;
  if (newest.report) setClock(newest.report.at);
  if (before && newest.report) announce(changes(before, newest.report));
  event = newest;
  draw();
}, (at) => {
  lost = at;
  announce(['connection lost']);
  tick();
});
setInterval(tick, 1000);

// The time that is shown.
const range = () => document.querySelector('input[name=range]:checked')?.value ?? '1h';
const radios = [...document.querySelectorAll('input[name=range]')];
const wanted = remember.get('range', '1h');
for (const radio of radios) radio.checked = radio.value === wanted;
get('ranges').addEventListener('change', () => {
  remember.set('range', range());
  for (const view of views()) view.setRange(range());
  draw();
});

// Dark or light.
const themes = ['auto', 'dark', 'light'];
let theme = remember.get('theme', 'auto');
function showTheme() {
  document.documentElement.dataset.theme = theme;
  text(get('theme'), theme);
  set(get('theme'), 'aria-label', `Theme: ${theme}; change it`);
}
function nextTheme() {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  remember.set('theme', theme);
  showTheme();
}
get('theme').addEventListener('click', nextTheme);
showTheme();

// Keys. Single letters can be switched off (WCAG 2.1, 2.1.4).
const keys = get('keys');
get('help').addEventListener('click', () => keys.showModal());
get('shortcuts').checked = remember.get('shortcuts', 'on') === 'on';
get('shortcuts').addEventListener('change', () => remember.set('shortcuts', get('shortcuts').checked ? 'on' : 'off'));

function move(step) {
  const rows = [...document.querySelectorAll('.row')];
  const at = rows.indexOf(document.activeElement?.closest('.server')?.querySelector('.row'));
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(at + step, rows.length - 1))];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

const shortcuts = {
  j: () => move(1),
  k: () => move(-1),
  r: () => radios[(radios.findIndex((radio) => radio.checked) + 1) % radios.length].click(),
  t: nextTheme,
  '?': () => keys.showModal(),
};

document.addEventListener('keydown', (press) => {
  if (press.ctrlKey || press.metaKey || press.altKey || keys.open) return;
  const onRow = document.activeElement?.classList.contains('row');
  const action = onRow && { ArrowDown: () => move(1), ArrowUp: () => move(-1) }[press.key];
  if (action) {
    press.preventDefault();
    action();
  } else if (get('shortcuts').checked && !press.target.closest('input, select, textarea')) {
    shortcuts[press.key]?.();
  }
});
