// Times in words. What is counted down is counted by the clock of the machine
// that serves the page: the browser's may be wrong.

let offset = 0;

// setClock takes the time of a report that has just come.
export function setClock(at) {
  offset = Date.parse(at) - Date.now();
}

export const now = () => Date.now() + offset;

const two = (n) => String(Math.floor(n)).padStart(2, '0');

// age writes milliseconds as a person would: 8 s, 2 m 10 s, 3 h 05 m, 4 d 2 h.
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 1) return `${seconds} s`;
  if (hours < 1) return `${minutes} m ${two(seconds % 60)} s`;
  if (hours < 24) return `${hours} h ${two(minutes % 60)} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// since is the age of a moment, empty if there is none.
export const since = (at) => (at ? age(now() - Date.parse(at)) : '');

// left is how long until a moment; a second that has begun counts.
export const left = (at) => age(Date.parse(at) - now() + 999);

// clock is a moment of today, or with its date if it is another day's.
export function clock(at) {
  const t = new Date(at);
  const time = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  const today = new Date(now()).toDateString() === t.toDateString();
  return today ? time : `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${time}`;
}

export const zone = () => Intl.DateTimeFormat(undefined, { timeZoneName: 'longOffset' }).formatToParts(new Date())
  .find((part) => part.type === 'timeZoneName').value;

// latency writes milliseconds with the digits that matter.
export function latency(ms) {
  if (!ms) return '–';
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
