/* Search without a server. The theme searches in a worker, and a browser starts none for a page that it
 * opened as a file; there a hidden frame, which runs the same script, does a worker's work. */
if (location.protocol === "file:") {
  /* The search script looks for this name, to find its own folder. */
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const page = this.inside.document;
      page.open(); /* else Firefox puts another document in its place */
      page.write("<!doctype html><body>");
      page.close();
      /* What a worker's script expects around it: messages go to the page, and scripts are loaded in order. */
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = async (...addresses) => {
        for (const each of addresses) await loaded(page, each);
      };
      loaded(page, address).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        for (const data of waiting) this.postMessage(data);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
  };

  const loaded = (page, address) =>
    new Promise((done, failed) => {
      const script = page.createElement("script");
      script.src = address;
      script.onload = done;
      script.onerror = failed;
      page.body.append(script);
    });
}
