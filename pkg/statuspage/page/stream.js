// The stream of reports, and whether it still flows.

const retryDelay = 2000; // as the server asks for
const pollTimeout = 15000; // of the server's own poll, which may take as long as that

// follow calls onEvent with each event, and onLost with the moment when the
// connection was lost.
export function follow(onEvent, onLost) {
  let source;
  let interval = 5000;
  let heard = Date.now();
  let lost = false;

  function lose() {
    if (!lost) onLost(Date.now());
    lost = true;
  }
  function open() {
    source = new EventSource('events');
    heard = Date.now();
    source.addEventListener('report', (message) => {
      heard = Date.now();
      lost = false;
      const event = JSON.parse(message.data);
      interval = event.interval_ms;
      onEvent(event);
    });
    source.addEventListener('error', () => {
      lose();
      // After an answer that is no stream the browser does not try again.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, retryDelay);
    });
  }
  // A connection that is dead without a word gives no error.
  setInterval(() => {
    if (source.readyState === EventSource.CLOSED || Date.now() - heard < 2 * interval + pollTimeout) return;
    lose();
    source.close();
    open();
  }, 1000);
  open();
}
