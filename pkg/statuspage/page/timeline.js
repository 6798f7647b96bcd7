// The timeline of a group: a lane for each check with what state it was in, what
// was done, and under it how long the answers took. All have one time axis,
// whose right end is now.

import { h, s, set, text } from './dom.js';
import { failOpens, fit, known, latencies, latencyParts, legend, ms, plot, sample, ticks, visible } from './lanes.js';
import { age, clock, latency, now } from './time.js';

const lengths = { '5m': 300e3, '1h': 3600e3, '24h': 86400e3 };
const gutter = 128; // for the names, where there is room beside the lanes
const narrow = 560; // px; below that the names are above the lanes
const bar = 16; // height of a state
const below = 10; // it, where the marks are
const axis = 20;
const near = 9; // px from a mark that still mean it

// words for the states of a lane. What is well is drawn thin, so that what is
// not stands out without its colour, too.
const words = { up: 'up', down: 'down', holddown: 'hold-down', unknown: 'unknown' };

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
  let failed = ''; // why there is no newer history
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
    const group = samples.some((l) => l.length > 1) ? [] : (past.latency ?? []).map(sample).filter((l) => l.at >= scene.from);
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
    text(notes, [failed, ...(past.notes ?? []), samples.some((l) => l.length > 1) || group.length > 1 ? `latency up to ${latency(most)}: p50 as a line, p99 as an area` : '']
      .filter(Boolean).join('; '));
    if (chosen) show(chosen);
  }

  function block(span, y, height, kind, word) {
    const from = Math.max(x(span.from), scene.left);
    const width = Math.max(1.5, x(span.to) - from);
    return s('g', null,
      s('rect', { class: `span ${kind}`, x: from, y, width, height, rx: 2 }),
      word && width > word.length * 7 + 16 ? s('text', { class: `in-span ${kind}`, x: from + 9, y: y + height - 4 }, word) : '');
  }
  function spanParts(span, y) {
    const well = span.status === 'up' && !span.drained;
    if (span.status === 'unknown' && !span.drained) {
      return [s('line', { class: 'nothing', x1: Math.max(x(span.from), scene.left), x2: x(span.to), y1: y + bar / 2, y2: y + bar / 2 })];
    }
    const kind = span.drained ? 'drained' : span.status;
    if (well) return [block(span, y + (bar - 6) / 2, 6, kind, '')];
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
      for (const server of newest) {
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
      failed = '';
      draw();
    },
    fail(message) {
      failed = `the history cannot be read: ${message}`;
      if (past) draw();
      else text(notes, failed);
    },
    tick(group) {
      const changed = failOpenNow !== group.fail_open;
      failOpenNow = group.fail_open;
      if (changed || Date.now() - drawnAt >= Math.min(10e3, range / 300)) draw();
    },
  };
}
