// What the page makes of a report, in words.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

// Node takes a .js file for a script unless a package.json beside it says otherwise.
const source = readFileSync(new URL('../../pkg/statuspage/page/words.js', import.meta.url), 'utf8');
const { changes, groupLevel, summary, traffic } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const server = (name, standing, registered, more = {}) => ({
  name, standing, registered, draining: 0, membership: registered ? 'in' : 'out', checks: [], ...more,
});
const group = (name, servers, more = {}) => ({ name, mode: 'enforce', fail_open: false, target_groups: [{}, {}], servers, ...more });
const well = server('a', 'up', 2);

test('summary', () => {
  for (const [groups, headline, rest, level] of [
    [[group('vpn', [well, server('b', 'up', 2)])], 'All 2 servers are up and in service', '', 'ok'],
    [[group('vpn', [well, server('b', 'down', 0)])], 'b is out', '', 'bad'],
    [[group('vpn', [well, server('b', 'up', 0)])], 'b is out', '', 'bad'],
    [[group('vpn', [well, server('b', 'stale', 0)])], 'b is out', '', 'bad'],
    [[group('vpn', [well, server('b', 'stale', 2)])], 'b is without news', '', 'warn'],
    [[group('vpn', [well, server('b', 'unknown', 0)])], 'b is not judged yet', '', 'warn'],
    [[group('vpn', [well, server('b', 'holddown', 0), server('c', 'up, failing', 2)])], 'b is out until hold-down ends; c is failing', '', 'warn'],
    [[group('vpn', [server('b', 'down', 0), server('c', 'holddown', 0), server('d', 'drained', 0)])],
      'b is out', 'd is drained; c is out until hold-down ends', 'bad'],
    [[group('vpn', [server('b', 'down', 2)], { fail_open: true })], 'FAIL-OPEN; b is down but still in', '', 'bad'],
    [[group('vpn', [server('b', 'holddown', 2)], { fail_open: true })], 'FAIL-OPEN', 'b is in hold-down but still in', 'bad'],
    [[group('vpn', [well], { warnings: ['the prober is silent'] })], 'the prober is silent', '', 'warn'],
    [[group('vpn', [well], { mode: 'observe', warnings: ['observe mode: it changes nothing'] })], 'The server is up and in service', '', 'ok'],
    [[group('vpn', [well]), group('wifi', [server('b', 'down', 0)])], 'wifi: b is out', '', 'bad'],
    [[group('vpn', [server('c', 'up, failing', 2)]), group('wifi', [server('b', 'down', 0)])], 'wifi: b is out', 'vpn: c is failing', 'bad'],
    [[group('vpn', Array.from({ length: 4 }, (_, i) => server(`s${i}`, 'down', 0)))], 's0, s1, s2, s3 are out', '', 'bad'],
    [[group('vpn', Array.from({ length: 40 }, (_, i) => server(`s${i}`, 'down', 0)))], 's0, s1, s2 and 37 more are out', '', 'bad'],
  ]) {
    assert.deepEqual(summary({ groups }), { headline, rest });
    const levels = groups.map(groupLevel);
    assert.equal(['bad', 'warn', 'ok'].find((l) => levels.includes(l)), level, headline);
  }
});

test('traffic', () => {
  for (const [standing, registered, more, mode, word, next] of [
    ['up', 2, {}, 'enforce', 'in', ''],
    ['up', 0, { membership: 'in' }, 'enforce', 'out', 'coming in'],
    ['up', 1, { membership: 'in' }, 'enforce', 'in 1 of 2', 'coming in'],
    ['down', 2, { membership: 'out' }, 'enforce', 'in', 'leaving'],
    ['down', 2, { membership: 'out' }, 'observe', 'in', 'would be out'],
    ['up', 0, { membership: 'in' }, 'observe', 'out', 'would be in'],
    ['down', 2, { membership: 'keep' }, 'enforce', 'in', ''],
    ['down', 0, { membership: 'out', draining: 1 }, 'enforce', 'out', 'draining'],
  ]) {
    const told = traffic(server('a', standing, registered, more), group('vpn', [], { mode }));
    assert.deepEqual([told.word, told.next], [word, next]);
  }
});

test('changes', () => {
  const before = { groups: [group('vpn', [well, server('b', 'up', 2), server('c', 'up', 2)])] };
  const after = { groups: [group('vpn', [well, server('b', 'down', 0), server('d', 'down', 0)], { fail_open: true }), group('new', [well])] };
  assert.deepEqual(changes(before, after), ['vpn: fail-open begins', 'b is down and out']);
  assert.deepEqual(changes(after, after), []);
});
