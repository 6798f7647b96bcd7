// The latency of the newest probes, as bars: one that no server answered is a
// mark on the floor.

import { s, set } from './dom.js';
import { latency } from './time.js';

const slots = 30; // as many as a row of table probes remembers

// bars makes a plot of the given size that follows its data.
export function bars(width, height) {
  const element = s('svg', { class: 'bars', viewBox: `0 0 ${width} ${height}`, role: 'img', preserveAspectRatio: 'none' });
  const step = width / slots;
  let drawn;
  return {
    element,
    update(recent) {
      const values = (recent ?? []).slice(-slots);
      if (drawn === values.join()) return;
      drawn = values.join();
      const most = Math.max(...values, 1);
      element.replaceChildren(...values.map((ms, i) => {
        const tall = ms ? Math.max(1.5, (ms / most) * height) : 3;
        return s('rect', {
          class: ms ? 'answered' : 'silent', x: width - (values.length - i) * step, y: height - tall, width: step - 1, height: tall,
        });
      }));
      const silent = values.filter((ms) => !ms).length;
      const answered = values.filter((ms) => ms);
      const range = answered.length ? `${latency(Math.min(...answered))} to ${latency(Math.max(...answered))}` : 'none';
      set(element, 'aria-label', `Latency of the newest ${values.length} probes: ${range}, ${silent} without an answer`);
    },
  };
}
