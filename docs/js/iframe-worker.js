// Browsers start no workers in pages that are opened as files. There, the search worker runs in a hidden frame instead.
if (location.protocol === "file:") {
  const load = (inside, url) =>
    new Promise((resolve, reject) => {
      const script = inside.document.createElement("script")
      script.src = url
      script.onload = resolve
      script.onerror = reject
      inside.document.body.append(script)
    })

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.document.open()
      inside.document.write("<!doctype html><body></body>")
      inside.document.close()
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => urls.reduce((done, next) => done.then(() => load(inside, next)), Promise.resolve())
      const ready = load(inside, url)
      this.postMessage = (data) => ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })))
      this.terminate = () => frame.remove()
    }
  }
}
