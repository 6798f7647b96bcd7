// What a report comes to, in words. Pure: no page, no clock.

const standings = {
  up: { word: 'up', icon: 'up', level: 'ok' },
  'up, failing': { word: 'failing', icon: 'failing', level: 'warn' },
  holddown: { word: 'hold-down', icon: 'holddown', level: 'warn' },
  down: { word: 'down', icon: 'down', level: 'bad' },
  stale: { word: 'no news', icon: 'stale', level: 'warn' },
  unknown: { word: 'unknown', icon: 'unknown', level: 'warn' },
  drained: { word: 'drained', icon: 'drained', level: 'warn' },
};

export const standing = (server) => standings[server.standing] ?? standings.unknown;

const levels = ['ok', 'warn', 'bad', 'lost'];

export const worst = (list) => list.reduce((a, b) => (levels.indexOf(b) > levels.indexOf(a) ? b : a), 'ok');

// traffic says whether a server gets any, and whether that is about to change.
export function traffic(server, group) {
  const all = group.target_groups.length;
  const isIn = all > 0 && server.registered === all;
  let word = isIn ? 'in' : server.registered > 0 ? `in ${server.registered} of ${all}` : 'out';
  let next = '';
  if (server.membership === 'out' && server.registered > 0) next = group.mode === 'observe' ? 'would be out' : 'leaving';
  if (server.membership === 'in' && !isIn) next = group.mode === 'observe' ? 'would be in' : 'coming in';
  if (next === '' && !isIn && server.draining > 0) next = 'draining';
  return { word, next, kind: isIn ? 'in' : server.registered > 0 ? 'partly' : 'out' };
}

// shown is the check that a server's row tells of: that which its standing comes from.
export const shown = (server) => server.checks.find((c) => c.row === server.row) ?? server.checks[0];

export function streak(check) {
  if (check.consecutive_failures > 0) return `${check.consecutive_failures} failed`;
  if (check.consecutive_successes > 0) return `${check.consecutive_successes} ok`;
  return '';
}

// serverLevel is how bad a server is. One that is out is as bad as one that is
// down, unless that is as it should be for now.
export function serverLevel(server, group) {
  const level = standing(server).level;
  if (['drained', 'unknown', 'holddown'].includes(server.standing)) return level;
  return traffic(server, group).kind === 'out' ? 'bad' : level;
}

// warnings leaves out that of observe mode, which is no trouble and has a sign of its own.
export const warnings = (group) => (group.warnings ?? []).filter((w) => group.mode !== 'observe' || !w.startsWith('observe mode'));

export function groupLevel(group) {
  const own = group.fail_open ? 'bad' : warnings(group).length ? 'warn' : 'ok';
  return worst([own, ...group.servers.map((server) => serverLevel(server, group))]);
}

const listed = 4;

function list(servers) {
  const names = servers.map((s) => s.name);
  return names.length <= listed ? names.join(', ') : `${names.slice(0, listed - 1).join(', ')} and ${names.length - listed + 1} more`;
}

// groupTrouble is what is wrong with a group: what harms and what might.
export function groupTrouble(group) {
  const trouble = { bad: [], warn: [] };
  const left = new Set(group.servers);
  const say = (level, words, wanted) => {
    const servers = [...left].filter(wanted);
    servers.forEach((server) => left.delete(server));
    if (servers.length) trouble[level].push(`${list(servers)} ${servers.length === 1 ? 'is' : 'are'} ${words}`);
  };
  const is = (...standings) => (server) => standings.includes(server.standing);
  const out = (server) => traffic(server, group).kind === 'out';
  if (group.fail_open) trouble.bad.push('FAIL-OPEN');
  say('warn', 'drained', is('drained'));
  say('warn', 'out until hold-down ends', (server) => server.standing === 'holddown' && out(server));
  say('warn', 'not judged yet', is('unknown'));
  say('bad', 'out', out);
  say('bad', 'down but still in', is('down'));
  say('warn', 'in hold-down but still in', is('holddown'));
  say('warn', 'failing', is('up, failing'));
  say('warn', 'without news', is('stale'));
  trouble.warn.push(...warnings(group));
  return trouble;
}

// summary is the report in one line, and in another what is less urgent. Groups
// are named where there are several.
export function summary(report) {
  const lines = { bad: [], warn: [] };
  for (const group of report.groups) {
    const trouble = groupTrouble(group);
    for (const level of ['bad', 'warn']) {
      if (trouble[level].length) lines[level].push((report.groups.length > 1 ? `${group.name}: ` : '') + trouble[level].join('; '));
    }
  }
  const servers = report.groups.reduce((n, group) => n + group.servers.length, 0);
  const well = servers === 1 ? 'The server is up and in service' : `All ${servers} servers are up and in service`;
  const [first, ...rest] = [lines.bad, lines.warn].filter((l) => l.length).map((l) => l.join(' · '));
  return { headline: first ?? well, rest: rest.join('') };
}

// changes lists what is worth telling somebody who cannot see that it has changed.
export function changes(before, after) {
  const news = [];
  for (const group of after.groups) {
    const old = before.groups.find((g) => g.name === group.name);
    if (!old) continue;
    if (group.fail_open !== old.fail_open) news.push(`${group.name}: fail-open ${group.fail_open ? 'begins' : 'ends'}`);
    for (const server of group.servers) {
      const was = old.servers.find((s) => s.name === server.name);
      if (!was) continue;
      const words = [];
      if (server.standing !== was.standing) words.push(standing(server).word);
      if (traffic(server, group).word !== traffic(was, old).word) words.push(traffic(server, group).word);
      if (words.length) news.push(`${server.name} is ${words.join(' and ')}`);
    }
  }
  return news;
}
