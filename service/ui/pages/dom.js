// Makes elements. Texts become text nodes, so nothing that a user logged can become markup.

/**
 * h("td", {class: "number", onclick: f}, "text", element, ...)
 * A property that starts with "on" is a listener, "style" an object of CSS properties.
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** A table: `columns` are {title, number}, `rows` arrays of texts or nodes. */
export function tableOf(caption, columns, rows) {
  const cells = (tag, row) => row.map((cell, i) => h(tag, {class: columns[i].number && "number"}, cell));
  return h("table", {},
    caption && h("caption", {}, caption),
    h("thead", {}, h("tr", {}, cells("th", columns.map((column) => column.title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, cells("td", row)))));
}

/** A command that a click copies. */
export function commandOf(text) {
  const said = h("span", {class: "said", role: "status"});
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      said.textContent = "press Ctrl+C";
    }
  };
  const code = h("code", {}, text);
  return h("p", {class: "command"}, code, h("button", {type: "button", onclick: copy, title: "Copy the command"}, "copy"), said);
}
