// What a timeline is drawn of: what of a history is to be seen, and the shapes of it.

import { h, s } from './dom.js';
import { clock } from './time.js';

export const plot = 24; // px, height of a latency plot

const shortest = 30e3; // ms that are shown at least
const steps = [15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10800e3, 14400e3, 21600e3];

export const ms = (at) => Date.parse(at);

export const fit = (words, most) => (words.length <= most ? words : `${words.slice(0, most - 1)}…`);

export const sample = (l) => ({ at: ms(l.at), p50: l.p50_ms, p99: l.p99_ms });

// known leaves out the time before anything is known, as far as that leaves enough.
export function known({ lanes }, from, to) {
  const begun = lanes.flatMap((lane) => lane.spans).filter((span) => span.status !== 'unknown').map((span) => ms(span.from));
  return { from: Math.max(from, Math.min(to - shortest, ...begun)), to };
}

// visible are the spans of a lane within the time shown. The last one goes on
// until now: what ends it would have been told.
export function visible(lane, { from, to }) {
  const spans = lane.spans.map((sp) => ({ ...sp, from: ms(sp.from), to: ms(sp.to) }));
  if (spans.length) spans.at(-1).to = to;
  return spans.filter((sp) => sp.to > from).map((sp) => ({ ...sp, from: Math.max(sp.from, from) }));
}

// latencies are those of the history, and what has been seen since.
export function latencies(lane, seen, { from }) {
  const known = (lane.latency ?? []).map(sample);
  const end = known.at(-1)?.at ?? 0;
  return [...known, ...(seen ?? []).filter((l) => l.at > end && l.p50 > 0)].filter((l) => l.at >= from);
}

// failOpens are the times of fail-open.
export function failOpens(marks, { from, to }, still) {
  const list = [];
  let begun = null;
  let any = false;
  for (const mark of marks) {
    if (mark.kind === 'fail-open begins') begun = ms(mark.at);
    else if (mark.kind === 'fail-open ends') {
      if (begun !== null || !any) list.push({ from: begun ?? from, to: ms(mark.at) });
      begun = null;
    } else continue;
    any = true;
  }
  if (begun !== null || (still && !any)) list.push({ from: begun ?? from, to });
  return list.filter((o) => o.to > from).map((o) => ({ ...o, from: Math.max(o.from, from), status: 'failopen' }));
}

export function latencyParts(samples, y, most, x) {
  const at = (v) => y + plot - 2 - (Math.min(v, most) / most) * (plot - 5);
  const line = (key) => samples.map((l) => `${x(l.at).toFixed(1)} ${at(l[key]).toFixed(1)}`);
  const first = x(samples[0].at).toFixed(1);
  const last = x(samples.at(-1).at).toFixed(1);
  return [
    s('path', { class: 'p99', d: `M${first} ${y + plot - 2}L${line('p99').join('L')}L${last} ${y + plot - 2}z` }),
    s('path', { class: 'p50', d: `M${line('p50').join('L')}` }),
  ];
}

export function ticks({ from, to, width }, x, top, bottom) {
  const room = Math.max(2, Math.floor(width / 64));
  const every = steps.find((step) => (to - from) / step <= room) ?? steps.at(-1);
  const zone = new Date(to).getTimezoneOffset() * 60e3;
  const parts = [];
  for (let at = Math.ceil((from - zone) / every) * every + zone; at < to; at += every) {
    const words = clock(at).split(' ').at(-1).slice(0, every < 60e3 ? 8 : 5);
    parts.push(s('line', { class: 'tick', x1: x(at), x2: x(at), y1: top - 2, y2: bottom }));
    if (x(at) > x(from) + 20 && x(at) < x(to) - 34 - 3.5 * words.length) parts.push(s('text', { class: 'time', x: x(at), y: bottom + 14, 'text-anchor': 'middle' }, words));
  }
  parts.push(s('text', { class: 'time', x: x(to), y: bottom + 14, 'text-anchor': 'end' }, 'now'));
  return parts;
}

export function legend() {
  const item = (kind, words) => h('li', null, s('svg', { class: 'key', viewBox: '0 0 20 12', 'aria-hidden': 'true' }, kind), words);
  const box = (kind, thin) => s('rect', { class: `span ${kind}`, x: 1, y: thin ? 4 : 1, width: 18, height: thin ? 4 : 10, rx: 2 });
  return h('ul', { class: 'legend' },
    item(box('up', true), 'up'), item(box('down'), 'down'), item(box('holddown'), 'hold-down'), item(box('drained'), 'drained'),
    item(s('path', { class: 'mark register', d: 'M5.5 10H14.5L10 1.5z' }), 'registered'),
    item(s('path', { class: 'mark deregister', d: 'M5.5 2H14.5L10 10.5z' }), 'deregistered'));
}
