// The switches of a lab, where servers are there to be broken.

import { h, set, text } from './dom.js';

async function order(path, body, message) {
  text(message, '');
  try {
    const answer = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    if (!answer.ok) text(message, await answer.text());
    return answer.ok;
  } catch (error) {
    text(message, String(error));
    return false;
  }
}

// switches makes the toolbar of a server. One of its buttons is in the tab
// order; arrow keys go from one to the next.
export function switches(group, server) {
  const message = h('span', { class: 'bad-words', role: 'alert' });
  const element = h('div', { class: 'switches', role: 'toolbar', 'aria-label': `Break ${server}`, hidden: true, onkeydown: move });
  let buttons = [];

  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const i = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    buttons.forEach((button, n) => set(button, 'tabindex', n === i ? 0 : -1));
    buttons[i].focus();
  }
  function press(fault) {
    buttons.forEach((button) => set(button, 'aria-pressed', button.dataset.fault && String(button.dataset.fault === fault)));
  }
  function make(faults) {
    buttons = faults.map((fault) => h('button', {
      type: 'button', 'data-fault': fault,
      onclick: async () => { if (await order('api/lab/fault', { server, fault }, message)) press(fault); },
    }, fault === 'none' ? 'well' : fault));
    buttons.push(h('button', {
      type: 'button', title: 'deregister its target behind the system’s back',
      onclick: () => order('api/lab/remove', { group, server }, message),
    }, 'remove target'));
    buttons.forEach((button, i) => set(button, 'tabindex', i ? -1 : 0));
    element.replaceChildren(h('span', { class: 'faint' }, 'break it:'), ...buttons, message);
  }
  return {
    element,
    update(lab) {
      element.hidden = !lab;
      if (!lab) return;
      if (!buttons.length) make(lab.faults);
      press(lab.current[server]);
    },
  };
}
