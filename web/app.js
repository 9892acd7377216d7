'use strict';
// Everything shown comes from models and their code, so it is only ever set as text, never as markup.

const state = { status: {}, steps: [], trajectories: [], result: null };
const KEPT = 30;
const byId = (id) => document.getElementById(id);
const inline = byId('inline-data');

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined && text !== null) node.textContent = String(text);
  return node;
}

function svg(tag, attributes, text) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, String(value));
  if (text !== undefined) node.textContent = String(text);
  return node;
}

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);
const percent = (value) => (isNumber(value) ? (100 * value).toFixed(1) + ' %' : '–');

function short(value) {
  if (!isNumber(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

function duration(seconds) {
  const s = Math.round(seconds);
  const two = (n) => String(n).padStart(2, '0');
  const minutes = Math.floor(s / 60);
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(minutes % 60)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}

// A run that goes on writes its status about once a second; one that was killed says nothing any more.
const SILENT_AFTER_S = 15;
function stateOfRun(status) {
  if (status.state && status.state !== 'running') return status.state;
  const silent = isNumber(status.time) && Date.now() / 1000 - status.time > SILENT_AFTER_S;
  return silent ? 'silent' : 'running';
}

function headline(status) {
  const stage = status.stage ? `stage: ${status.stage}` : '';
  switch (stateOfRun(status)) {
    case 'finished': return 'finished';
    case 'stopped': return `stopped (${status.reason}): --resume goes on`;
    case 'failed': return `failed: ${status.reason}`;
    case 'silent':
      return `no sign of life since ${new Date(1000 * status.time).toLocaleString()} (${stage}): --resume goes on`;
    default: return stage;
  }
}

function stagesLine(status) {
  const list = (names) => (Array.isArray(names) ? names.join(', ') : '');
  const started = isNumber(status.started) ? new Date(1000 * status.started).toLocaleString() : '';
  const parts = [['started', started], ['done', list(status.done)], ['to do', list(status.left)]];
  return parts.filter(([, text]) => text).map(([label, text]) => `${label}: ${text}`).join(' · ');
}

// Of the stage and of the run; a stage of which none was done before has no known length.
function timeLeft(status) {
  if (!(status.eta_s > 0)) return '';
  const run = status.run_eta_s;
  const least = status.run_eta_is_least ? 'more than ' : '';
  const all = isNumber(run) && (least || run > status.eta_s) ? `, in all ${least}${duration(run)}` : '';
  return `, ${duration(status.eta_s)} left in this stage${all}`;
}

const stateClass = (name) => (['green', 'yellow', 'red'].includes(name) ? name : '');

function showStatus() {
  const status = state.status || {};
  byId('run').textContent = status.run ? String(status.run) : 'TritonForge';
  document.title = status.run ? `${status.run} – TritonForge` : 'TritonForge';
  const now = stateOfRun(status), running = now === 'running';
  byId('stage').textContent = headline(status);
  byId('stage').className = `tag ${{ finished: 'green', stopped: 'yellow', failed: 'red', silent: 'red' }[now] || ''}`;
  byId('stages').textContent = stagesLine(status);
  byId('live').hidden = !inline && !running;
  const progress = status.progress || {};
  const known = isNumber(progress.done) && isNumber(progress.total) && progress.total > 0;
  byId('progress').hidden = !known || !running;
  if (known) {
    byId('bar').style.width = `${Math.min(100, (100 * progress.done) / progress.total)}%`;
    byId('progress-text').textContent = `${progress.done} of ${progress.total}${timeLeft(status)}`;
  }
  const roles = (Array.isArray(status.roles) ? status.roles : []).map((role) => {
    const known = running ? role.state : 'unknown';
    const card = element('div', `role ${stateClass(known)}`);
    card.append(element('span', 'state', known), element('b', '', role.name),
                element('span', 'detail', role.detail || ''));
    return card;
  });
  byId('roles').replaceChildren(...roles);
}

// ---- results ----

function intervalPicture(point, interval) {
  const picture = svg('svg', { viewBox: '0 0 200 18', preserveAspectRatio: 'none', role: 'img' });
  const x = (value) => 4 + 192 * Math.min(1, Math.max(0, value));
  picture.append(svg('line', { x1: 4, x2: 196, y1: 9, y2: 9, class: 'track' }));
  if (interval) {
    picture.append(svg('line', { x1: x(interval[0]), x2: x(interval[1]), y1: 9, y2: 9, class: 'interval' }));
  }
  if (isNumber(point)) picture.append(svg('rect', { x: x(point) - 1, y: 3, width: 2, height: 12, class: 'point' }));
  return picture;
}

function showResult() {
  const stages = state.result && Array.isArray(state.result.stages) ? state.result.stages : [];
  byId('results').hidden = stages.length === 0;
  const names = { base: 'base', sft: 'SFT', rl: 'SFT + RL' };
  byId('result-rows').replaceChildren(...stages.map((stage) => {
    const row = element('tr');
    const known = Array.isArray(stage.ci95) && stage.ci95.length === 2 && stage.ci95.every(isNumber);
    const interval = known ? stage.ci95 : null;
    const name = stage.label || (Object.hasOwn(names, stage.name) ? names[stage.name] : stage.name);
    const cells = [stage.turns, percent(stage.pass_at_1),
                   interval ? `${(100 * interval[0]).toFixed(1)} – ${percent(interval[1])}` : '–',
                   stage.turns > 1 ? percent(stage.single_turn_pass_at_k) : '', percent(stage.compile_rate),
                   stage.samples, isNumber(stage.failed) ? stage.failed : '–'];
    row.append(element('td', '', name), ...cells.map((text) => element('td', 'number', text)));
    const cell = element('td', 'chart-cell');
    cell.append(intervalPicture(stage.pass_at_1, interval));
    row.append(cell);
    return row;
  }));
  const wall = (state.result && state.result.wall_s) || {};
  const order = ['data', 'sft', 'rl', 'bench'];
  const rank = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  const parts = Object.entries(wall).sort((a, b) => rank(a[0]) - rank(b[0])).filter(([, value]) => isNumber(value))
    .map(([name, value]) => `${name} ${duration(value)}`);
  if (state.result && state.result.seed !== undefined) parts.push(`seed ${state.result.seed}`);
  byId('wall').textContent = parts.join(' · ');
}

// ---- curves ----

const CHARTS = [
  { title: 'SFT loss', stage: 'sft', series: [['loss', 'loss']] },
  { title: 'RL reward', stage: 'rl', series: [['reward_mean', 'mean reward']] },
  { title: 'RL rates', stage: 'rl', series: [['pass_rate', 'correct'], ['compile_rate', 'compiles']], range: [0, 1],
    format: percent },
  { title: 'RL loss', stage: 'rl', series: [['loss', 'loss']] },
  { title: '|log-prob of trainer − sampler|', stage: 'rl', series: [['train_rollout_logprob_abs_diff', 'mean']],
    from: 0 },
  { title: 'Seconds per RL step', stage: 'rl', series: [['seconds', 'seconds']], from: 0 },
];
const COLOURS = ['one', 'two'];

function niceTicks(low, high) {
  const raw = (high - low) / 4;
  const scale = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * scale).find((n) => n >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) {
    ticks.push(Math.abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return ticks;
}

function smooth(points) {  // mean over a centred window, which does not lag behind
  const reach = Math.max(1, Math.floor(points.length / 24));
  return points.map(([x], i) => {
    const half = Math.min(reach, i, points.length - 1 - i);
    const window = points.slice(i - half, i + half + 1);
    return [x, window.reduce((sum, p) => sum + p[1], 0) / window.length];
  });
}

function drawChart(chart, lines) {
  const [width, height, left, bottom, top, right] = [400, 190, 46, 22, 8, 10];
  const points = lines.flatMap((line) => line.points);
  let [low, high] = chart.range || [Math.min(...points.map((p) => p[1])), Math.max(...points.map((p) => p[1]))];
  if (chart.from !== undefined) low = Math.min(low, chart.from);
  if (high - low < 1e-12) {
    [low, high] = [low - Math.max(0.5, Math.abs(low) * 0.1), high + Math.max(0.5, Math.abs(high) * 0.1)];
  }
  else if (!chart.range) high += 0.05 * (high - low);
  const first = Math.min(...points.map((p) => p[0]));
  const last = Math.max(...points.map((p) => p[0]), first + 1);
  const x = (value) => left + ((width - left - right) * (value - first)) / (last - first);
  const y = (value) => height - bottom - ((height - top - bottom) * (value - low)) / (high - low);
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': chart.title });
  for (const tick of niceTicks(low, high)) {
    picture.append(svg('line', { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: 'axis' }),
      svg('text', { x: left - 6, y: y(tick) + 4, 'text-anchor': 'end', class: 'tick' },
          chart.format ? `${Math.round(100 * tick)} %` : short(tick)));
  }
  for (const [value, anchor] of [[first, 'start'], [last, 'end']]) {
    picture.append(svg('text', { x: x(value), y: height - 6, 'text-anchor': anchor, class: 'tick' }, `step ${value}`));
  }
  lines.forEach((line, i) => {
    const path = (list) => list.map(([a, b], n) => `${n ? 'L' : 'M'}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join('');
    if (line.points.length > 12) picture.append(svg('path', { d: path(line.points), class: `raw ${COLOURS[i]}` }));
    const shown = line.points.length > 12 ? smooth(line.points) : line.points;
    picture.append(svg('path', { d: path(shown), class: `series ${COLOURS[i]}` }));
    const end = shown[shown.length - 1];
    picture.append(svg('circle', { cx: x(end[0]), cy: y(end[1]), r: 3, class: `dot ${COLOURS[i]}` }));
  });
  return picture;
}

function showSteps() {
  const cards = [];
  for (const chart of CHARTS) {
    const steps = state.steps.filter((step) => step.stage === chart.stage && isNumber(step.step));
    const pointsOf = (key) => steps.filter((s) => isNumber(s[key])).map((s) => [s.step, s[key]]);
    const lines = chart.series.map(([key, name]) => ({ name, points: pointsOf(key) }))
      .filter((line) => line.points.length > 0);
    if (lines.length === 0) continue;
    const card = element('div', 'chart');
    const head = element('h3', '', chart.title);
    lines.forEach((line, i) => {
      const label = element('span', 'last');
      const newest = line.points[line.points.length - 1][1];
      label.append(element('span', `key ${COLOURS[i]}`), `${line.name} ${(chart.format || short)(newest)}`);
      head.append(label);
    });
    card.append(head, drawChart(chart, lines));
    cards.push(card);
  }
  byId('charts').replaceChildren(...cards);
  byId('no-steps').hidden = cards.length > 0;
  const warned = state.steps.findLast((step) => step.warning);
  byId('warning').hidden = !warned;
  if (warned) byId('warning').textContent = `Step ${warned.step}: ${warned.warning}`;
}

// ---- trajectories ----

function verdictBadge(verdict) {
  if (!verdict) return element('span', 'badge red', 'no verdict');
  const cheat = (verdict.flags || []).find((flag) => flag.cheat);
  if (cheat) return element('span', 'badge red', `cheat: ${cheat.name}`);
  if (verdict.correct) {
    return element('span', 'badge green', verdict.speedup > 0 ? `correct, ${short(verdict.speedup)}×` : 'correct');
  }
  if (verdict.compiled) return element('span', 'badge yellow', verdict.error_kind || 'wrong');
  return element('span', 'badge red', verdict.error_kind || verdict.stage || 'failed');
}

function block(parent, label, text, wrap) {
  if (!text) return;
  parent.append(element('div', 'label', label), element('pre', wrap ? 'wrap' : '', text));
}

function turnView(turn, index) {
  const view = element('div', 'turn');
  const verdict = turn.verdict || null;
  const line = element('div');
  line.append(element('b', '', `Turn ${index + 1} `), verdictBadge(verdict));
  const facts = [` reward ${short(turn.reward)}`, turn.status];
  if (isNumber(turn.response_tokens_count)) facts.push(`${turn.response_tokens_count} tokens`);
  if (isNumber(turn.generate_s)) facts.push(`generated in ${short(turn.generate_s)} s`);
  if (isNumber(turn.evaluate_s)) facts.push(`judged in ${short(turn.evaluate_s)} s`);
  if (verdict && verdict.stage) facts.push(`stage ${verdict.stage}`);
  if (verdict && isNumber(verdict.own_share)) facts.push(`own share ${percent(verdict.own_share)}`);
  line.append(element('span', 'facts', facts.filter(Boolean).join(' · ')));
  view.append(line);
  if (turn.code) block(view, 'code', turn.code);
  else block(view, 'answer (no code found)', turn.text, true);
  if (verdict) {
    block(view, 'feedback', verdict.diagnostics, true);
    const flags = (verdict.flags || [])
      .map((flag) => `${flag.cheat ? 'cheat' : 'doubt'} ${flag.name}: ${flag.evidence}`);
    block(view, 'flags', flags.join('\n'), true);
  }
  return view;
}

function trajectoryView(trajectory) {
  const view = element('details', 'trajectory');
  view.dataset.id = String(trajectory.id);
  const turns = Array.isArray(trajectory.turns) ? trajectory.turns : [];
  const head = element('summary');
  head.append(element('span', 'id', trajectory.problem_id), ...turns.map((turn) => verdictBadge(turn.verdict)),
    element('span', 'right', [`reward ${short(trajectory.reward)}`,
                              `${turns.length} turn${turns.length === 1 ? '' : 's'}`, trajectory.id].join(' · ')));
  view.append(head);
  let filled = false;  // the inside is made when it is first opened
  const fill = () => {
    if (filled || !view.open) return;
    filled = true;
    const inside = element('div', 'inside');
    block(inside, 'problem', trajectory.problem_source);
    turns.forEach((turn, i) => inside.append(turnView(turn, i)));
    view.append(inside);
  };
  view.addEventListener('toggle', fill);
  view.openNow = () => { view.open = true; fill(); };
  return view;
}

function showTrajectories() {
  const list = byId('trajectories');
  const old = new Map([...list.children].map((node) => [node.dataset.id, node]));
  list.replaceChildren(...state.trajectories.map((t) => old.get(String(t.id)) || trajectoryView(t)));
  byId('no-trajectories').hidden = state.trajectories.length > 0;
  if (old.size === 0 && list.firstElementChild) list.firstElementChild.openNow();
}

function showAll() {
  showStatus();
  showResult();
  showSteps();
  showTrajectories();
}

// ---- data ----

let scheduled = false;
function later() {  // many events, one drawing
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    showAll();
  });
}

function addStep(step) {
  const key = (one) => `${one.stage}/${one.step}`;
  const at = state.steps.findLastIndex((one) => key(one) === key(step));
  if (at >= 0) state.steps[at] = step;
  else state.steps.push(step);
}

function addTrajectory(trajectory) {
  if (state.trajectories.some((one) => one.id === trajectory.id)) return;
  state.trajectories = [trajectory, ...state.trajectories].slice(0, KEPT);
}

async function load() {
  const get = async (path) => (await fetch(path)).json();
  const [status, steps, trajectories, result] = await Promise.all(
    ['api/status', 'api/steps', `api/trajectories?limit=${KEPT}`, 'api/result'].map(get));
  Object.assign(state, { status, result, trajectories, steps: [] });
  const seen = new Map();
  for (const step of steps) seen.set(`${step.stage}/${step.step}`, step);
  state.steps = [...seen.values()];
  showAll();
}

function live(text) { byId('live').textContent = text; }

function listen() {
  const source = new EventSource('api/events');
  const on = (name, take) => source.addEventListener(name, (event) => {
    take(JSON.parse(event.data));
    later();
  });
  source.addEventListener('open', () => {
    live('live');
    load().catch((error) => live(`cannot load: ${error.message}`));
  });
  source.addEventListener('error', () => live('not connected'));
  on('status', (status) => { state.status = status; });
  on('result', (result) => { state.result = result; });
  on('step', addStep);
  on('trajectory', addTrajectory);
}

if (inline) {
  Object.assign(state, JSON.parse(inline.textContent));
  live('report');
  showAll();
} else {
  listen();
  setInterval(showStatus, 5000);  // silence is no event
}
