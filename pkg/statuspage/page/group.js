// A group: what is decided and why, its servers, its timeline and its log.

import { h, icon, keyed, text } from './dom.js';
import { timelineView } from './timeline.js';
import { clock, now, since } from './time.js';
import { groupLevel, warnings as warningsOf } from './words.js';
import { serverView } from './server.js';

const columns = ['State', 'Server', 'Traffic', 'Why, and what comes next', 'Newest probe', 'Latency p50, p99'];
const refetch = 60000; // of a timeline to which nothing happens
const logged = 100; // lines

export function groupView(name) {
  const mode = h('span', { class: 'chip' });
  const count = h('span', { class: 'count' });
  const meaning = h('p', { class: 'meaning' });
  const probed = h('span', { class: 'faint' });
  const failOpen = h('p', { class: 'failopen', hidden: true });
  const warnings = h('ul', { class: 'warnings' });
  const servers = h('ul', { class: 'servers' });
  const targets = h('ul', { class: 'targets faint' });
  const timeline = timelineView(name);
  const log = logView(name);
  const title = `group-${name}`;
  const element = h('section', { class: 'group', 'aria-labelledby': title },
    h('header', null, h('h2', { id: title }, name), mode, count, probed, meaning),
    failOpen, warnings,
    h('div', { class: 'columns', 'aria-hidden': 'true' }, ...columns.map((c) => h('span', null, c))),
    servers, targets,
    h('div', { class: 'past' }, timeline.element, log.element));
  let group;
  let range;
  let fetched = { at: 0, range: null, signature: null };

  // The history is read again when something has changed, and now and then for
  // the latencies. An answer may be as old as one poll, so a change is asked for twice.
  async function read(interval) {
    const signature = JSON.stringify([group.fail_open, group.servers.map((s) => [s.standing, s.since, s.registered, s.membership])]);
    const age = now() - fetched.at;
    const settled = fetched.signature === signature && fetched.range === range;
    if (settled && age < (fetched.twice ? refetch : interval + 500)) return;
    fetched = { at: now(), range, signature, twice: settled };
    try {
      const answer = await fetch(`api/timeline?${new URLSearchParams({ group: name, since: range })}`);
      if (!answer.ok) throw new Error(await answer.text());
      const past = await answer.json();
      if (fetched.range !== range) return;
      timeline.update(past);
      log.update(past);
    } catch (error) {
      timeline.fail(error.message);
    }
  }
  function tick() {
    if (!group) return;
    text(probed, group.newest_round ? `newest probe ${since(group.newest_round)} ago` : 'never probed');
    failOpen.hidden = !group.fail_open;
    if (group.fail_open) {
      const begun = group.fail_open_since ? ` since ${clock(group.fail_open_since)}, for ${since(group.fail_open_since)}` : '';
      text(failOpen.lastChild, `Fail-open${begun}: fewer than ${group.below} can be relied on, so servers that do not authenticate stay in.`);
    }
    for (const view of (servers.keyed ?? new Map()).values()) view.tick();
    timeline.tick(group);
  }
  failOpen.append(icon('failopen'), h('span'));
  return {
    element,
    tick,
    setRange(value) {
      range = value;
      timeline.setRange(value);
    },
    update({ group: newest, lab, interval }) {
      group = newest;
      element.dataset.level = groupLevel(group);
      text(mode, group.mode === 'observe' ? 'observe: changes nothing' : '');
      mode.hidden = group.mode !== 'observe';
      text(count, `${group.registered} of ${group.servers.length} in service${group.desired === group.registered ? '' : `, ${group.desired} wanted`}`);
      text(meaning, group.meaning || `case ${group.case}`);
      keyed(warnings, warningsOf(group), (w) => w, (w) => ({ element: h('li', null, w), update() {} }));
      keyed(servers, group.servers.map((server) => ({ server, in: group, lab })), ({ server }) => server.name, ({ server }) => serverView(name, server.name));
      keyed(targets, group.target_groups, (tg) => tg.arn, targetView);
      timeline.setServers(group.servers);
      tick();
      read(interval);
    },
  };
}

function targetView({ arn }) {
  const element = h('li', { title: arn });
  return {
    element,
    update(tg) {
      const parts = [`${tg.registered} registered`];
      if (tg.draining) parts.push(`${tg.draining} draining`);
      if (tg.unmanaged?.length) parts.push(`not ours: ${tg.unmanaged.join(', ')}`);
      if (tg.error) parts.push(tg.error);
      text(element, `target group ${tg.name}: ${parts.join('; ')}`);
    },
  };
}

const markIcons = {
  register: 'register', deregister: 'deregister', withheld: 'withheld', drain: 'drained', undrain: 'up',
  'fail-open begins': 'failopen', 'fail-open ends': 'up',
};

function logView(name) {
  const list = h('ol', { class: 'log', tabindex: 0, 'aria-label': `What happened in ${name}, newest first` });
  return {
    element: h('div', { class: 'happened' }, h('h3', null, 'What happened'), list),
    update({ marks, lanes }) {
      // A transition has the sign of the state that it led to, which is in its lane.
      const led = new Map(lanes.flatMap((lane) => lane.spans.map((span) => [`${lane.row} ${span.from}`, span.status])));
      const newest = (marks ?? []).slice(-logged).reverse();
      if (!newest.length) {
        list.replaceChildren(h('li', { class: 'faint' }, 'nothing in this time'));
        return;
      }
      list.replaceChildren(...newest.map((mark) => {
        const to = mark.kind === 'transition' ? led.get(`${mark.server} ${mark.at}`) : null;
        return h('li', { 'data-kind': mark.kind, 'data-to': to },
          h('time', { datetime: mark.at }, clock(mark.at)), icon(markIcons[mark.kind] ?? to ?? 'unknown'),
          h('span', null, mark.server ? h('strong', null, mark.server) : null, mark.server ? ` ${mark.text}` : mark.text));
      }));
    },
  };
}
