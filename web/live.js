// What goes on now: the run's state, its roles as the diagram of the documents, and what came of it so far.

// A run that goes on writes its status about once a second; one that was killed says nothing any more.
const SILENT_AFTER_S = 15;
function stateOfRun(status) {
  if (status.state && status.state !== 'running') return status.state;
  const silent = isNumber(status.time) && serverTime() - status.time > SILENT_AFTER_S;
  return silent ? 'silent' : 'running';
}
const STATE_COLOURS = {
  finished : 'green',
  stopped : 'yellow',
  failed : 'red',
  silent : 'red'
};

function headline(status) {
  const stage = status.stage ? `stage: ${status.stage}` : '';
  switch (stateOfRun(status)) {
    case 'finished':
      return 'finished';
    case 'stopped':
      return `stopped (${status.reason}): --resume goes on`;
    case 'failed':
      return `failed: ${status.reason}`;
    case 'silent':
      return `dead: no sign of life since ${clock(status.time)} (${stage}): --resume goes on`;
    default:
      return stage;
  }
}

function stagesLine(status) {
  const list = (names) => (Array.isArray(names) ? names.join(', ') : '');
  const parts =
      [ [ 'started', clock(status.started) ], [ 'done', list(status.done) ], [ 'to do', list(status.left) ] ];
  return parts.filter(([, text ]) => text).map(([ label, text ]) => `${label}: ${text}`).join(' · ');
}

// Of the stage and of the run; a stage of which none was done before has no known length.
function timeLeft(status) {
  if (!(status.eta_s > 0)) return '';
  const run = status.run_eta_s;
  const least = status.run_eta_is_least ? 'more than ' : '';
  const all = isNumber(run) && (least || run > status.eta_s) ? `, in all ${least}${duration(run)}` : '';
  return `, ${duration(status.eta_s)} left in this stage${all}`;
}

function showStatus(status) {
  const now = stateOfRun(status), running = now === 'running';
  byId('run').textContent = status.run ? String(status.run) : 'TritonForge';
  byId('stage').textContent = headline(status);
  byId('stage').className = `tag ${STATE_COLOURS[now] || ''}`;
  byId('stages').textContent = stagesLine(status);
  const progress = status.progress || {};
  const known = isNumber(progress.done) && isNumber(progress.total) && progress.total > 0;
  byId('progress').hidden = !known || !running;
  if (!known) return;
  byId('bar').style.width = `${Math.min(100, (100 * progress.done) / progress.total)}%`;
  byId('progress-text').textContent = `${progress.done} of ${progress.total}${timeLeft(status)}`;
}

// ---- the diagram ----

const PLACES = [
  [ 'buffer', /^buffer/ ], [ 'router', /^router/ ], [ 'engines', /^engine/ ],
  [ 'evaluator', /^(eval|perf|compile)/ ], [ 'trainer', /^trainer/ ]
];
// From, to, what goes there, and whether the sender waits for it (solid) or not (dotted).
const WIRES = [
  [ 'buffer', 'router', 'prompts', true ], [ 'router', 'engines', 'requests', true ],
  [ 'buffer', 'evaluator', 'kernels', true ], [ 'buffer', 'trainer', 'groups', true ],
  [ 'trainer', 'engines', 'weights', false ]
];

function meter(label, share, text) {
  const bar = element('span', {class : 'meter'}, element('span', {}));
  bar.firstChild.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share || 0)))}%`;
  return element('div', {class : 'load'}, element('span', {}, label), bar, element('span', {}, text));
}

// What a role's own figures (GET /metrics, written to status.json) say of its load.
function loadOf(kind, figures, status) {
  const f = (name) => (isNumber(figures[name]) ? figures[name] : 0);
  const rows = [];
  if (kind === 'engines' && isNumber(figures.kv_tokens_total)) {
    const used = f('kv_tokens_total') - f('kv_tokens_free');
    const going = f('running_sequences');
    rows.push(
        [ 'weights', null, `version ${figures.weight_version}` ],
        [
          'sequences', going / Math.max(1, going + f('waiting_sequences')),
          `${going} running, ${f('waiting_sequences')} waiting`
        ],
        [
          'KV cache', used / Math.max(1, f('kv_tokens_total')), percent(used / Math.max(1, f('kv_tokens_total')))
        ]);
  }
  if (kind === 'evaluator' && isNumber(figures.workers)) {
    rows.push(
        [ 'workers', f('busy') / Math.max(1, f('workers')), `${f('busy')} of ${f('workers')} busy` ],
        [ 'queue', f('waiting') / Math.max(1, f('waiting') + f('workers')), `${f('waiting')} waiting` ]);
  }
  if (kind === 'buffer' && isNumber(figures.queued_samples)) {
    const open = f('queued_samples') + f('running_trajectories');
    rows.push(
        [
          'fill', f('running_trajectories') / Math.max(1, open),
          `${f('running_trajectories')} under way, ${f('queued_samples')} to begin`
        ],
        [ 'turns', null, `${f('generating')} generating, ${f('evaluating')} judged` ],
        [ 'stored', null, plural(f('trajectories'), 'trajectory').replace('trajectorys', 'trajectories') ]);
  }
  if (kind === 'router' && isNumber(figures.waiting_requests))
    rows.push([ 'waiting', null, plural(f('waiting_requests'), 'request') ]);
  if (kind === 'trainer' && isNumber(figures.memory_gib))
    rows.push([ 'memory', null, `${short(figures.memory_gib)} GiB` ]);
  if (kind === 'trainer' && isNumber(figures.step) && status.progress)
    rows.push([ 'step', null, `${figures.step}` ]);
  return rows.map(
      ([ label, share, text ]) =>
          (share === null ? element(
                                'div', {class : 'load'}, element('span', {}, label), element('span', {}),
                                element('span', {}, text)) :
                            meter(label, share, text)));
}

function roleCard(kind, role, status, running) {
  const state = running ? role.state : 'unknown';
  const known = [ 'green', 'yellow', 'red' ].includes(state) ? state : '';
  const where = [ role.host, role.restarts ? `restarted ${role.restarts}×` : '' ].filter(Boolean).join(', ');
  return element(
      'div', {class : `role ${known}`, 'data-role' : role.name},
      element('div', {class : 'role-head'}, element('b', {}, role.name), element('span', {class : 'state'}, state)),
      running ? loadOf(kind, role.figures || {}, status) : null,
      role.detail ? element('span', {class : 'detail'}, role.detail) : null,
      where ? element('span', {class : 'detail'}, where) : null);
}

function drawWires(diagram) {
  const frame = diagram.getBoundingClientRect();
  if (frame.width === 0) return;
  const old = diagram.querySelector('svg');
  if (old) old.remove();
  const picture = svg('svg', {class : 'wires', width : frame.width, height : frame.height, 'aria-hidden' : 'true'});
  const boxesOf = (name) => [...diagram.querySelectorAll(`[data-place="${name}"] .role`)].map((card) => {
    const box = card.getBoundingClientRect();
    return {
      left : box.left - frame.left,
      right : box.right - frame.left,
      top : box.top - frame.top,
      bottom : box.bottom - frame.top,
      y : box.top - frame.top + Math.min(26, box.height / 2),
      x : (box.left + box.right) / 2 - frame.left,
      live : !card.classList.contains('absent')
    };
  });
  const narrow = frame.width < 700;
  WIRES.forEach(([ from, to, what, waits ], i) => {
    const [start] = boxesOf(from);
    boxesOf(to).forEach((end, n) => {
      if (!start) return;
      const kind = `wire ${waits ? '' : 'dotted'} ${start.live && end.live ? '' : 'idle'}`;
      let path, label;
      if (narrow) {
        const out = start.right + 8 + 9 * i;
        path = `M${start.right} ${start.y + 4 * i} H${out} V${end.y + 4 * i} H${end.right}`;
      } else if (Math.abs(start.x - end.x) < 40) {
        path = `M${start.x} ${start.bottom} V${end.top}`;
        label = [ start.x + 8, (start.bottom + end.top) / 2 + 4, 'start' ];
      } else if (from === 'buffer' && to === 'trainer') {
        path = `M${start.right} ${start.bottom - 14} H${(start.right + end.left) / 2} V${end.y} H${end.left}`;
        label = [ (start.right + end.left) / 2 + 6, end.y - 8, 'start' ];
      } else {
        const middle = (start.right + end.left) / 2;
        const y = to === 'engines' && from === 'trainer' ? end.bottom - 12 : end.y;
        path = `M${start.right} ${start.y} H${middle + (waits ? 0 : 12)} V${y} H${end.left}`;
        label = [ middle + (waits ? 0 : 12), start.y - 8, 'middle' ];
      }
      picture.append(svg('path', {d : path, class : kind}));
      if (label && n === 0)
        picture.append(
            svg('text', {x : label[0], y : label[1], 'text-anchor' : label[2], class : 'wire-text'}, what));
    });
  });
  diagram.prepend(picture);
}

const rewire = new ResizeObserver((entries) => entries.forEach((entry) => drawWires(entry.target)));

function diagramView(status) {
  const roles = Array.isArray(status.roles) ? status.roles : [];
  const running = stateOfRun(status) === 'running';
  const placed = new Set();
  const places = PLACES.map(([ name, pattern ]) => {
    const of = roles.filter((role) => pattern.test(role.name));
    of.forEach((role) => placed.add(role));
    const cards = of.length ? of.map((role) => roleCard(name, role, status, running)) :
                              [ element(
                                  'div', {class : 'role absent'},
                                  element(
                                      'div', {class : 'role-head'}, element('b', {}, name),
                                      element('span', {class : 'state'}, running ? 'not started' : 'ended'))) ];
    return element('div', {class : 'place', 'data-place' : name}, cards);
  });
  const others = roles.filter((role) => !placed.has(role));
  const diagram = element('div', {class : 'diagram', role : 'group', 'aria-label' : 'states of the roles'}, places);
  rewire.observe(diagram);
  const legend = element(
      'p', {class : 'note legend'}, element('span', {class : 'dot-green'}), 'green: works ',
      element('span', {class : 'dot-yellow'}), 'yellow: under load or starting ',
      element('span', {class : 'dot-red'}), 'red: failed · solid line: the sender waits · dotted: it does not',
      others.length ?
          ` · also there: ${others.map((role) => `${role.name} ${running ? role.state : 'unknown'}`).join(', ')}` :
          '');
  return [ diagram, legend, running ? gpusView(status.gpus) : null ];
}

function gpusView(gpus) {
  if (!Array.isArray(gpus) || gpus.length === 0) return null;
  return element(
      'div', {class : 'gpus', role : 'group', 'aria-label' : 'GPUs of this machine'},
      gpus.map(
          (gpu) => element(
              'div', {class : 'gpu'}, element('b', {}, `GPU ${gpu.index}`),
              element('span', {class : 'detail'}, gpu.name), meter('use', gpu.use, percent(gpu.use)),
              meter(
                  'memory', gpu.memory_used_gib / gpu.memory_total_gib,
                  `${short(gpu.memory_used_gib)} of ${short(gpu.memory_total_gib)} GiB`))));
}

// ---- results ----

function intervalPicture(point, interval) {
  const picture = svg('svg', {viewBox : '0 0 200 18', preserveAspectRatio : 'none', 'aria-hidden' : 'true'});
  const x = (value) => 4 + 192 * Math.min(1, Math.max(0, value));
  picture.append(svg('line', {x1 : 4, x2 : 196, y1 : 9, y2 : 9, class : 'track'}));
  if (interval)
    picture.append(svg('line', {x1 : x(interval[0]), x2 : x(interval[1]), y1 : 9, y2 : 9, class : 'interval'}));
  if (isNumber(point))
    picture.append(svg('rect', {x : x(point) - 1, y : 3, width : 2, height : 12, class : 'point'}));
  return picture;
}

const intervalOf = (row) =>
    (Array.isArray(row.ci95) && row.ci95.length === 2 && row.ci95.every(isNumber) ? row.ci95 : null);
function labelOf(row) {
  const names = {base : 'base', sft : 'SFT', rl : 'SFT + RL'};
  return row.label || (Object.hasOwn(names, row.name) ? names[row.name] : row.name);
}
const intervalText = (interval) => (interval ? `${(100 * interval[0]).toFixed(1)} – ${percent(interval[1])}` : '–');

function resultView(result) {
  const rows = result && Array.isArray(result.stages) ? result.stages : [];
  if (rows.length === 0) return null;
  // The prefix of a baseline's fields, and its name.
  const timed = [ [ '', 'eager' ], [ 'torch_compile_', 'torch.compile' ] ].filter(
      ([ before ]) => rows.some((row) => row[`${before}fast_p`]));
  const columns = [
    [ 'model', '' ], [ 'pass@1', 'number' ], [ '95 % interval', 'number' ], [ 'turns', 'number' ],
    [ 'k single', 'number' ], [ 'compiles', 'number' ],
    ...timed.flatMap(([, name ]) => [[ `fast_1, ${name}`, 'number' ], [ `mean speedup, ${name}`, 'number' ]]),
    [ 'samples', 'number' ], [ 'failed', 'number' ], [ '0 % to 100 %', 'chart-cell' ]
  ];
  const lines = rows.map((row) => {
    const interval = intervalOf(row);
    const cells = [
      percent(row.pass_at_1), intervalText(interval), row.turns,
      row.turns > 1 ? percent(row.single_turn_pass_at_k) : '', percent(row.compile_rate),
      ...timed.flatMap(([ before ]) => {
        const mean = row[`${before}geo_mean_speedup`];
        return [ percent((row[`${before}fast_p`] || {})['1.0']), mean > 0 ? `${short(mean)}×` : '–' ];
      }),
      row.samples, isNumber(row.failed) ? row.failed : '–'
    ];
    return element(
        'tr', {}, element('th', {scope : 'row'}, labelOf(row)),
        cells.map((text) => element('td', {class : 'number'}, text)),
        element('td', {class : 'chart-cell'}, intervalPicture(row.pass_at_1, interval)));
  });
  const wall = Object.entries(result.wall_s || {})
                   .filter(([, value ]) => isNumber(value) && value > 0)
                   .map(([ name, value ]) => `${name} ${duration(value)}`);
  if (result.seed !== undefined) wall.push(`seed ${result.seed}`);
  return section(
      'Results', table('results', columns, lines),
      note(
          'k single: pass@k of k = turns single answers, unbiased; turns help where pass@1 is above it. failed: ' +
          'samples beside those counted that a failure of ours left without a verdict; they are in no rate.'),
      note(wall.join(' · ')));
}
