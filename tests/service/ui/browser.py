"""A headless Chromium, driven by the W3C WebDriver protocol of Debian's chromedriver. Needs no package of Python."""

import base64
import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request


class Browser:
    """Closed at the end of a `with` block."""

    def __init__(self, width=1200, height=900, dark=False, profile=None):
        # Port 0: a free one, which it prints.
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                self.base = "http://127.0.0.1:" + line.rsplit("port ", 1)[1].strip(" .\n")
                break
        else:
            raise RuntimeError("chromedriver did not start")
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"]
        if profile:
            arguments.append(f"--user-data-dir={profile}")
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"args": arguments}}}})
        self.base += "/session/" + answer["sessionId"]
        self.size(width, height, dark)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def cdp(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height, dark=False):
        """The size of the page in CSS pixels, and the system's theme."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The result of the body of a function. Awaits a promise."""
        return self.call("POST", "/execute/async", {"script": "const done = arguments[arguments.length - 1];"
                         f"(async (...args) => {{ {script} }})(...arguments).then(done, (error) => done({{error: String(error)}}));", "args": list(arguments)})

    def wait(self, condition, seconds=20):
        """Until the expression is true; returns its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(f"return ({condition});")
            if value and not (isinstance(value, dict) and "error" in value):
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {condition}; the page shows: {self.run('return document.body.innerText')[:2000]}")
            time.sleep(0.05)

    @contextlib.contextmanager
    def windows(self, count):
        """`count` more windows, closed at the end: the handles of all windows, the first one first."""
        first = self.call("GET", "/window")
        more = [self.call("POST", "/window/new", {"type": "window"})["handle"] for _ in range(count)]
        try:
            yield [first, *more]
        finally:
            for handle in more:
                self.focus(handle)
                self.call("DELETE", "/window")
            self.focus(first)

    def focus(self, handle):
        self.call("POST", "/window", {"handle": handle})

    def errors(self):
        """What the console of the page reported since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def press(self, key):
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))
