// A server: its row, its details, and in a lab its switches.

import { h, icon, keyed, set, setIcon, text } from './dom.js';
import { bars } from './plot.js';
import { age, clock, latency, left, since } from './time.js';
import { serverLevel, shown, standing, streak, traffic } from './words.js';
import { switches } from './lab.js';

// serverView makes the view of a server. Rows of a group are alike, so that a
// column can be read down.
export function serverView(group, name) {
  const id = `server-${group}-${name}`;
  const symbol = icon('unknown');
  const word = h('span', { class: 'word' });
  const sinceWord = h('span', { class: 'faint' });
  const address = h('span', { class: 'faint address' });
  const pill = h('span', { class: 'pill' });
  const moving = h('span', { class: 'faint' });
  const why = h('span', { class: 'reason' });
  const next = h('span', { class: 'faint next' });
  const outcome = h('span', { class: 'outcome' });
  const run = h('span', { class: 'faint' });
  const p50 = h('span');
  const p99 = h('span', { class: 'faint' });
  const plot = bars(90, 22);
  const button = h('button', {
    type: 'button', class: 'row', 'aria-expanded': 'false', 'aria-controls': `${id}-details`, onclick: () => toggle(),
  },
  h('span', { class: 'cell state' }, symbol, h('span', { class: 'stack' }, word, sinceWord)),
  h('span', { class: 'cell name stack' }, h('strong', null, name), address),
  h('span', { class: 'cell traffic stack' }, pill, moving),
  h('span', { class: 'cell why stack' }, why, next),
  h('span', { class: 'cell newest stack' }, outcome, run),
  h('span', { class: 'cell latency' }, h('span', { class: 'stack' }, p50, p99), plot.element),
  icon('chevron'));
  const details = detailsView(`${id}-details`, group);
  const lab = switches(group, name);
  const element = h('li', { class: 'server', id }, button, lab.element, details.element);
  let state;

  function toggle() {
    const open = button.getAttribute('aria-expanded') !== 'true';
    set(button, 'aria-expanded', String(open));
    details.element.hidden = !open;
    if (open) {
      details.update(state);
      details.count();
    }
  }
  function tick() {
    const { server } = state;
    text(sinceWord, server.held_until && server.standing === 'holddown' ? `${left(server.held_until)} left` : since(server.since) && `for ${since(server.since)}`);
    set(sinceWord, 'title', server.since ? `since ${clock(server.since)}` : null);
    text(next, server.next);
    details.tick(state);
  }
  return {
    element,
    tick,
    update({ server, in: in_, lab: switched }) {
      state = { server, group: in_ };
      const check = shown(server);
      const goes = traffic(server, in_);
      element.dataset.level = serverLevel(server, in_);
      element.dataset.standing = server.standing;
      setIcon(symbol, standing(server).icon);
      text(word, standing(server).word);
      text(address, server.address);
      pill.dataset.kind = goes.kind;
      text(pill, goes.word.toUpperCase());
      text(moving, goes.next);
      text(why, [server.drain ? drain(server.drain) : server.reason, check && cause(check)].filter(Boolean).join(', '));
      text(outcome, check ? [check.outcome ?? 'never probed', server.checks.length > 1 ? `(${check.method})` : ''].join(' ').trim() : '');
      text(run, check ? streak(check) : '');
      text(p50, check ? latency(check.latency_p50_ms ?? check.latency_ms) : '');
      text(p99, check?.latency_p99_ms ? `p99 ${latency(check.latency_p99_ms)}` : '');
      plot.update(check?.recent_latency_ms);
      lab.update(switched);
      if (!details.element.hidden) details.update(state);
      tick();
    },
  };
}

const drain = ({ reason, until }) => (until ? `${reason}, until ${clock(until)}` : reason);

// cause is what made the newest probe fail, in the server's words if it has any.
function cause(check) {
  if (!check.consecutive_failures) return '';
  return check.reply_message ? `it says “${check.reply_message}”` : check.reason;
}

// facts is a list of words and what they are now; those that say nothing are left out.
function facts() {
  const element = h('dl', { class: 'facts' });
  return {
    element,
    update(pairs) {
      keyed(element, pairs.filter(([, value]) => value), ([term]) => term, ([term]) => {
        const value = h('dd');
        return { element: h('div', null, h('dt', null, term), value), update: ([, words]) => text(value, words) };
      });
    },
  };
}

function detailsView(id, name) {
  const own = facts();
  const checks = h('div', { class: 'checks' });
  const message = h('p', { class: 'bad-words' });
  const element = h('div', { class: 'details', id, hidden: true }, own.element, checks, message);

  function update({ server, group }) {
    own.update([
      ['decision', `${server.membership}: ${server.reason}`],
      ['target groups', `registered in ${server.registered} of ${group.target_groups.length}${server.draining ? `, draining in ${server.draining}` : ''}`],
      ['next', server.next],
      ['not before', server.next_at && clock(server.next_at)],
      ['held until', server.held_until && clock(server.held_until)],
    ]);
    keyed(checks, server.checks, (check) => check.row, () => checkView());
  }
  // count reads the counters when somebody wants to see them: they come with all of the history.
  async function count() {
    try {
      const answer = await fetch(`api/servers?${new URLSearchParams({ group: name })}`);
      if (!answer.ok) throw new Error(await answer.text());
      const counted = (await answer.json()).groups[0].checks;
      for (const [row, view] of checks.keyed) view.count(counted.find((c) => c.row === row));
    } catch (error) {
      text(message, `the counters cannot be read: ${error.message}`);
    }
  }
  return { element, update, count, tick: (state) => { if (!element.hidden) update(state); } };
}

function checkView() {
  const title = h('h4');
  const own = facts();
  const counters = facts();
  const reply = h('q', { class: 'reply' });
  const said = h('p', null, 'It says: ', reply);
  const plot = bars(360, 60);
  return {
    element: h('section', { class: 'check' }, title, own.element, said, plot.element, counters.element),
    update(check) {
      text(title, `${check.method} on ${check.address}`);
      own.update([
        ['status', `${check.status}${check.since ? ` since ${clock(check.since)}` : ''}`],
        ['held until', check.held_until && clock(check.held_until)],
        ['newest probe', check.round && `${check.outcome}, ${since(check.round)} ago`],
        ['reason', check.reason],
        ['streak', streak(check) && `${streak(check)}${check.streak_since ? ` since ${clock(check.streak_since)}` : ''}`],
        ['latency', `${latency(check.latency_ms)}, p50 ${latency(check.latency_p50_ms)}, p99 ${latency(check.latency_p99_ms)}`],
      ]);
      said.hidden = !check.reply_message;
      text(reply, check.reply_message ?? '');
      plot.update(check.recent_latency_ms);
    },
    count(counted) {
      if (counted) counters.update(counts(counted));
    },
  };
}

const counts = (c) => [
  ['previous state', `${c.previous_state}, ${age(c.previous_duration_s * 1000)}`],
  ['dead', `${c.dead_count}×, ${age(c.dead_s * 1000)}`],
  ['quarantined', `${c.quarantine_count}×, ${age(c.quarantine_s * 1000)}`],
  ['requests', `${c.requests}, ${c.retransmits} sent again`],
  ['success', String(c.success)],
  ['failure', String(c.failure)],
  ['accepts, rejects, challenges', `${c.accepts}, ${c.rejects}, ${c.challenges}`],
  ['timeouts, refused', `${c.timeouts}, ${c.refused}`],
  ['unexpected, incorrect', `${c.unexpected}, ${c.incorrect}`],
];
