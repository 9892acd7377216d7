'use strict';
// Elements, numbers and the theme. Everything shown comes from models and their code, so it is only ever set as
// text, never as markup. The files of this folder are one script, in the order of src/dashboard/page.cpp.

const byId = (id) => document.getElementById(id);

// element('td', { class: 'number', title: '...' }, child, 'text', ...): an attribute that is false or absent is
// left out, one that is a function listens.
function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function')
      node.addEventListener(name, value);
    else if (value === true)
      node.setAttribute(name, '');
    else if (value !== false && value !== undefined && value !== null)
      node.setAttribute(name, String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) node.append(child instanceof Node ? child : String(child));
  }
  return node;
}
const element = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
    build(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);
const percent = (value) => (isNumber(value) ? (100 * value).toFixed(1) + ' %' : '–');
const sum = (values) => values.reduce((a, b) => a + b, 0);
const plural = (count, one) => `${count.toLocaleString('en')} ${one}${count === 1 ? '' : 's'}`;

function short(value) {
  if (!isNumber(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1);
  return size >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));
}

function duration(seconds) {
  const s = Math.round(seconds);
  const two = (n) => String(n).padStart(2, '0');
  const minutes = Math.floor(s / 60);
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(minutes % 60)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}

const clock = (unix) => (isNumber(unix) ? new Date(1000 * unix).toLocaleString() : '');

// A table whose columns are [title, 'number' or '']. It scrolls sideways inside its own frame.
function table(label, columns, rows) {
  const head =
      element('tr', {}, columns.map(([ title, kind ]) => element('th', {scope : 'col', class : kind}, title)));
  return element(
      'div', {class : 'scroll', tabindex : 0, role : 'region', 'aria-label' : label},
      element('table', {}, element('thead', {}, head), element('tbody', {}, rows)));
}

function section(title, ...children) {
  return element('section', {}, element('h2', {}, title), ...children);
}

const note = (...text) => element('p', {class : 'note'}, ...text);

function chooser(label, value, options, change) {
  const list = element(
      'select', {change : () => change(list.value)},
      options.map(([ name, text ]) => element('option', {value : name, selected : name === value}, text)));
  return element('label', {}, label, list);
}

function field(label, value, change, attributes) {
  const input =
      element('input', {type : 'search', value, ...attributes, change : () => change(input.value.trim())});
  return element('label', {}, label, input);
}

// Where the reader is: "#/VIEW?run=...&...". A link with a value of null leaves that one out.
function place() {
  const [view, query] = location.hash.replace(/^#\/?/, '').split('?');
  return {view, query : new URLSearchParams(query || '')};
}

function link(view, changes, from) {
  const query = new URLSearchParams(from || '');
  for (const [name, value] of Object.entries(changes || {})) {
    if (value === null || value === '' || value === undefined)
      query.delete(name);
    else
      query.set(name, value);
  }
  const text = query.toString();
  return `#/${view}${text ? '?' + text : ''}`;
}

// ---- light and dark: as the system has it, until the button is pressed ----

const THEMES = [ 'system', 'light', 'dark' ];
function theme(next) {
  let now = 'system';
  try {  // a page from a file may have no storage
    if (next) localStorage.setItem('theme', next);
    now = localStorage.getItem('theme') || 'system';
  } catch {
    now = next || 'system';
  }
  if (now === 'system')
    delete document.documentElement.dataset.theme;
  else
    document.documentElement.dataset.theme = now;
  const button = byId('theme');
  button.textContent = {system : 'theme: system', light : 'theme: light', dark : 'theme: dark'}[now];
  button.onclick = () => theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

// Python, coloured; anything else is left as it is. A string that is not closed ends with its line: sought again from
// each quote in it, it would take the square of its length.
const TOKENS = new RegExp(
    [
      '(#[^\\n]*)',
      '("""[\\s\\S]*?(?:"""|$)|\'\'\'[\\s\\S]*?(?:\'\'\'|$)|"(?:\\\\.|[^"\\\\\\n])*"?|\'(?:\\\\.|[^\'\\\\\\n])*\'?)',
      '\\b(and|as|assert|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|' +
          'lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\\b',
      '(@[\\w.]+)',
      '\\b(\\d[\\w.]*)',
    ].join('|'),
    'g');
const TOKEN_CLASSES = [ 'comment', 'string', 'keyword', 'decorator', 'literal' ];

function coloured(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > at) parts.push(text.slice(at, found.index));
    const kind = found.slice(1).findIndex((group) => group !== undefined);
    parts.push(element('span', {class : TOKEN_CLASSES[kind]}, found[0]));
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

// A labelled block of text with a button that copies it.
function block(label, text, {wrap = false, code = false, content} = {}) {
  if (!text) return null;
  const copy = element(
      'button', {
        type : 'button',
        class : 'copy',
        click : () => navigator.clipboard.writeText(text).then(
            () => {
              copy.textContent = 'copied';
            },
            () => {
              copy.textContent = 'not allowed here';
            })
      },
      'copy');
  return element(
      'div', {class : 'block'}, element('div', {class : 'label'}, label, navigator.clipboard ? copy : null),
      element(
          'pre', {class : wrap ? 'wrap' : '', tabindex : 0, 'aria-label' : label},
          content || (code ? coloured(text) : text)));
}
