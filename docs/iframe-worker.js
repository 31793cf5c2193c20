// Lets the search of a page that is opened from disk run its worker: browsers start no worker from a file, so its script
// runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      const opened = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
      Object.assign(this.frame, { hidden: true, srcdoc: "<!doctype html>" });
      document.body.append(this.frame);
      this.ready = opened.then(() => this.connect()).then(() => this.load(url));
    }

    connect() {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => this.load(url)), Promise.resolve());
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        this.frame.contentDocument.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
