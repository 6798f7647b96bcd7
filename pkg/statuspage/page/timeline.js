// The timeline of a group: a lane for each check with what state it was in, what
// was done, and under it how long the answers took. All have one time axis,
// whose right end is now.

import { h, s, set, text } from './dom.js';
import { age, clock, latency, now } from './time.js';

const lengths = { '5m': 300e3, '1h': 3600e3, '24h': 86400e3 };
const steps = [15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10800e3, 14400e3, 21600e3];
const shortest = 30e3; // ms that are shown at least
const gutter = 128; // for the names, where there is room beside the lanes
const narrow = 560; // px; below that the names are above the lanes
const bar = 16; // height of a state
const below = 10; // it, where the marks are
const plot = 24; // height of a latency plot
const axis = 20;
const near = 9; // px from a mark that still mean it

// words for the states of a lane. What is well is drawn thin, so that what is
// not stands out without its colour, too.
const words = { up: 'up', down: 'down', holddown: 'hold-down', unknown: 'unknown' };

const ms = (at) => Date.parse(at);

export function timelineView(name) {
  const svg = s('svg', { 'aria-hidden': 'true' });
  const frame = h('div', {
    class: 'plot', tabindex: 0, role: 'group', 'aria-label': `Timeline of ${name}; arrow keys step through what happened`,
    onkeydown: step, onpointermove: point, onpointerdown: point, onpointerleave: () => show(null), onblur: () => show(null),
  }, svg);
  const readout = h('p', { class: 'readout', 'aria-live': 'polite' });
  const notes = h('p', { class: 'faint notes' });
  const title = h('h3', null, 'Timeline');
  const element = h('div', { class: 'timeline' }, title, frame, legend(), notes, readout);
  let past = null;
  let servers = [];
  let failOpenNow = false;
  let range = lengths['1h'];
  let drawnAt = 0;
  let chosen = null; // what the pointer or the keys are at
  let scene = { lanes: [], from: 0, to: 1, left: 0, width: 1 };
  const live = new Map(); // by row: what has been seen since the page was opened

  new ResizeObserver(() => draw()).observe(frame);

  const x = (at) => scene.left + ((at - scene.from) / (scene.to - scene.from)) * scene.width;

  function draw() {
    const width = frame.clientWidth;
    if (!past || width === 0) return;
    drawnAt = Date.now();
    const above = width < narrow;
    scene = { ...known(past, now() - range, now()), left: above ? 0 : gutter, lanes: [] };
    scene.width = width - scene.left - 1;
    const parts = [];
    const label = (words, y, kind) => parts.push(above
      ? s('text', { class: `label ${kind}`, x: 0, y: y - 4 }, words)
      : s('text', { class: `label ${kind}`, x: gutter - 10, y: y + 12, 'text-anchor': 'end' }, fit(words, 17)));
    let y = above ? 16 : 2;
    const top = y;
    const open = failOpens(past.marks ?? [], scene, failOpenNow);
    if (open.length) {
      label('fail-open', y, 'alarm');
      for (const o of open) parts.push(block(o, y, bar, 'failopen', 'fail-open'));
      scene.lanes.push({ y, height: bar, server: '', spans: open });
      y += bar + (above ? 24 : 10);
    }
    const samples = past.lanes.map((lane) => latencies(lane, live.get(lane.row), scene));
    // That of the group is for lanes that have none of their own.
    const group = samples.some((l) => l.length > 1) ? [] : (past.latency ?? []).map(point99).filter((l) => l.at >= scene.from);
    const most = Math.max(1, ...[...samples, group].flat().map((l) => l.p99));
    past.lanes.forEach((lane, i) => {
      const spans = visible(lane, scene);
      const top = y;
      label(lane.row, y, '');
      for (const span of spans) parts.push(...spanParts(span, y));
      y += bar + below;
      if (samples[i].length > 1) {
        parts.push(...latencyParts(samples[i], y, most, x));
        y += plot;
      }
      scene.lanes.push({ y: top, height: y - top, server: lane.server, row: lane.row, spans });
      y += above ? 22 : 6;
    });
    if (group.length > 1) {
      label('latency', y, '');
      parts.push(...latencyParts(group, y, most, x));
      y += plot + 10;
    }
    const bottom = y;
    parts.unshift(...ticks(scene, x, top, bottom));
    parts.push(...markParts(bottom));
    parts.push(s('line', { class: 'cursor', y1: 0, y2: bottom, x1: -9, x2: -9 }));
    set(svg, 'width', width);
    set(svg, 'height', bottom + axis);
    set(svg, 'viewBox', `0 0 ${width} ${bottom + axis}`);
    svg.replaceChildren(...parts);
    text(notes, [...(past.notes ?? []), samples.some((l) => l.length > 1) || group.length > 1 ? `latency up to ${latency(most)}: p50 as a line, p99 as an area` : '']
      .filter(Boolean).join('; '));
    if (chosen) show(chosen);
  }

  function block(span, y, height, kind, word) {
    const from = Math.max(x(span.from), scene.left);
    const width = Math.max(1.5, x(span.to) - from);
    return s('g', null,
      s('rect', { class: `span ${kind}`, x: from, y, width, height, rx: 2 }),
      width > word.length * 7 + 16 ? s('text', { class: `in-span ${kind}`, x: from + 9, y: y + height - 4 }, word) : '');
  }
  function spanParts(span, y) {
    const well = span.status === 'up' && !span.drained;
    if (span.status === 'unknown' && !span.drained) {
      return [s('line', { class: 'nothing', x1: Math.max(x(span.from), scene.left), x2: x(span.to), y1: y + bar / 2, y2: y + bar / 2 })];
    }
    const kind = span.drained ? 'drained' : span.status;
    if (well) return [block(span, y + (bar - 6) / 2, 6, kind, ' '.repeat(999))];
    return [block(span, y, bar, kind, span.drained ? 'drained' : words[span.status] ?? span.status)];
  }
  function markParts(bottom) {
    return events().filter((m) => ['register', 'deregister', 'withheld'].includes(m.kind)).map((mark) => {
      const lane = laneOf(mark);
      const down = mark.kind !== 'register';
      const tip = lane ? lane.y + bar + below / 2 : bottom;
      const d = down ? 'M-4.5 -4H4.5L0 4.5z' : 'M-4.5 4H4.5L0 -4.5z';
      return s('path', { class: `mark ${mark.kind}`, d, transform: `translate(${x(ms(mark.at))} ${tip})` });
    });
  }
  const laneOf = (mark) => scene.lanes.find((l) => (mark.server ? l.server === mark.server || l.row === mark.server : l.server === ''));
  const events = () => (past?.marks ?? []).filter((m) => ms(m.at) >= scene.from && ms(m.at) <= scene.to);

  // show tells what is at a mark, or at a moment of a lane.
  function show(what) {
    chosen = what;
    const cursor = svg.querySelector('.cursor');
    if (!cursor) return;
    const at = what ? x(what.at) : -9;
    set(cursor, 'x1', at);
    set(cursor, 'x2', at);
    text(readout, what ? what.words : '');
  }
  const tell = (mark) => ({ mark, at: ms(mark.at), words: `${clock(mark.at)}  ${mark.server ? `${mark.server}: ` : ''}${mark.text}` });

  function step(event) {
    const list = events();
    const i = list.findIndex((m) => m.at === chosen?.mark?.at && m.text === chosen?.mark?.text);
    const to = {
      ArrowLeft: i < 0 ? list.length - 1 : i - 1, ArrowRight: i < 0 ? 0 : i + 1, Home: 0, End: list.length - 1,
    }[event.key];
    if (event.key === 'Escape') show(null);
    if (to === undefined) return;
    event.preventDefault();
    if (!list.length) show({ at: scene.to, words: 'nothing happened in this time' });
    else show(tell(list[Math.max(0, Math.min(to, list.length - 1))]));
  }
  function point(event) {
    const box = svg.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const at = scene.from + ((px - scene.left) / scene.width) * (scene.to - scene.from);
    const lane = scene.lanes.find((l) => py >= l.y - 6 && py <= l.y + l.height + 6);
    const mark = events().filter((m) => laneOf(m) === lane).map((m) => ({ m, away: Math.abs(x(ms(m.at)) - px) }))
      .filter(({ away }) => away <= near).sort((a, b) => a.away - b.away)[0];
    if (mark) return show(tell(mark.m));
    const span = lane?.spans.find((sp) => at >= sp.from && at <= sp.to);
    if (!span) return show(null);
    const subject = lane.row ?? name;
    const why = [span.rule, span.reason].filter(Boolean).join(', ');
    return show({ at, words: `${subject}: ${span.drained ? 'drained' : words[span.status] ?? 'fail-open'} from ${clock(span.from)} to ${span.to >= scene.to ? 'now' : clock(span.to)}, ${age(span.to - span.from)}${why ? `: ${why}` : ''}` });
  }

  return {
    element,
    setRange(value) {
      range = lengths[value];
      draw();
    },
    // setServers remembers the newest latencies: the history knows of them later, or never.
    setServers(newest) {
      servers = newest;
      for (const server of servers) {
        for (const check of server.checks) {
          if (!check.round) continue;
          const list = live.get(check.row) ?? live.set(check.row, []).get(check.row);
          const at = ms(check.round);
          if (list.at(-1)?.at === at) continue;
          list.push({ at, p50: check.latency_ms ?? 0, p99: check.latency_ms ?? 0 });
          if (list.length > 2000) list.shift();
        }
      }
    },
    update(timeline) {
      past = timeline;
      text(notes, '');
      draw();
    },
    fail(message) {
      text(notes, `the history cannot be read: ${message}`);
    },
    tick(group) {
      const changed = failOpenNow !== group.fail_open;
      failOpenNow = group.fail_open;
      if (changed || Date.now() - drawnAt >= Math.min(10e3, range / 300)) draw();
    },
  };
}

const fit = (words, most) => (words.length <= most ? words : `${words.slice(0, most - 1)}…`);

const point99 = (l) => ({ at: ms(l.at), p50: l.p50_ms, p99: l.p99_ms });

// known leaves out the time before anything is known, as far as that leaves enough.
function known({ lanes }, from, to) {
  const begun = lanes.flatMap((lane) => lane.spans).filter((span) => span.status !== 'unknown').map((span) => ms(span.from));
  return { from: Math.max(from, Math.min(to - shortest, ...begun)), to };
}

// visible are the spans of a lane within the time shown. The last one goes on
// until now: what ends it would have been told.
function visible(lane, { from, to }) {
  const spans = lane.spans.map((sp) => ({ ...sp, from: ms(sp.from), to: ms(sp.to) }));
  if (spans.length) spans.at(-1).to = to;
  return spans.filter((sp) => sp.to > from).map((sp) => ({ ...sp, from: Math.max(sp.from, from) }));
}

// latencies are those of the history, and what has been seen since.
function latencies(lane, seen, { from }) {
  const known = (lane.latency ?? []).map(point99);
  const end = known.at(-1)?.at ?? 0;
  return [...known, ...(seen ?? []).filter((l) => l.at > end && l.p50 > 0)].filter((l) => l.at >= from);
}

// failOpens are the times of fail-open.
function failOpens(marks, { from, to }, still) {
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

function latencyParts(samples, y, most, x) {
  const at = (v) => y + plot - 2 - (Math.min(v, most) / most) * (plot - 5);
  const line = (key) => samples.map((l) => `${x(l.at).toFixed(1)} ${at(l[key]).toFixed(1)}`);
  const first = x(samples[0].at).toFixed(1);
  const last = x(samples.at(-1).at).toFixed(1);
  return [
    s('path', { class: 'p99', d: `M${first} ${y + plot - 2}L${line('p99').join('L')}L${last} ${y + plot - 2}z` }),
    s('path', { class: 'p50', d: `M${line('p50').join('L')}` }),
  ];
}

function ticks({ from, to, width }, x, top, bottom) {
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

function legend() {
  const item = (kind, words) => h('li', null, s('svg', { class: 'key', viewBox: '0 0 20 12', 'aria-hidden': 'true' }, kind), words);
  const box = (kind, thin) => s('rect', { class: `span ${kind}`, x: 1, y: thin ? 4 : 1, width: 18, height: thin ? 4 : 10, rx: 2 });
  return h('ul', { class: 'legend' },
    item(box('up', true), 'up'), item(box('down'), 'down'), item(box('holddown'), 'hold-down'), item(box('drained'), 'drained'),
    item(s('path', { class: 'mark register', d: 'M5.5 10H14.5L10 1.5z' }), 'registered'),
    item(s('path', { class: 'mark deregister', d: 'M5.5 2H14.5L10 10.5z' }), 'deregistered'));
}
