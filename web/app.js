// The views, their addresses, and what keeps them up to date.

const state = {
  run : null,
  status : {},
  result : null,
  curves : {},
  help : {},
  many : false
};
const VIEWS = {
  overview : 'Overview',
  curves : 'Curves',
  timeline : 'Timeline',
  trajectories : 'Trajectories',
  problems : 'Problems',
  flags : 'Flags',
  about : 'About'
};

function overviewView() {
  const runs = [ {name : '', curves : state.curves} ];
  const curve = [ 'rl', 'sft' ].filter((stage) => state.curves[stage]);
  const charts = curve.flatMap((stage) => {
    const figures =
        figuresOf(runs, stage).filter((name) => DEFAULTS.includes(name)).slice(0, stage === 'rl' ? 6 : 3);
    return [
      element('h3', {}, stage === 'sft' ? 'SFT' : 'RL'),
      stageCharts(runs, stage, state.help, {smoothing : 8, from : null, to : null}, figures)
    ];
  });
  const warnings = (state.curves.rl || {warnings : []}).warnings;
  return [
    element('div', {id : 'roles'}, diagramView(state.status)),
    element('div', {id : 'results'}, resultView(state.result)),
    section(
        'Curves',
        warnings.length ? element('p', {class : 'warning'}, `Step ${warnings[warnings.length - 1].join(': ')}`) :
                          null,
        charts.length ? charts : note('No step has finished yet.'),
        charts.length ? element('p', {}, element('a', {href : link('curves', {run : state.run})}, 'every figure')) :
                        null)
  ];
}

async function viewOf(view, query) {
  switch (view) {
    case 'runs':
      return runsView(query);
    case 'compare':
      return compareView(query, show);
    case 'curves':
      return curvesView([ {name : '', curves : state.curves} ], state.help, show);
    case 'timeline':
      return timelineView(state.curves);
    case 'trajectories':
      return trajectoriesView(query);
    case 'problems':
      return problemsView(query);
    case 'flags':
      return flagsView(query);
    case 'about':
      return aboutView(query);
    default:
      return overviewView();
  }
}

function showViews(view) {
  const entries = state.run === null ? [] : Object.entries(VIEWS);
  if (state.many) entries.unshift([ 'runs', 'Runs' ]);
  byId('views').replaceChildren(...entries.map(
      ([ name, title ]) => element(
          'li', {},
          element(
              'a', {
                href : link(name, {run : name === 'runs' ? null : state.run}),
                'aria-current' : name === view ? 'page' : false
              },
              title))));
  byId('keys').textContent = `keys: ${entries.length > 1 ? `1 to ${entries.length} views · ` : ''}/ search · ` +
      'j, k next and previous trajectory · arrows read a chart';
  const now = byId('views').querySelector('[aria-current]');
  if (now) now.scrollIntoView({block : 'nearest', inline : 'nearest'});
}

function showHead() {
  if (state.run !== null)
    showStatus(state.status);
  else {
    byId('run').textContent = 'TritonForge';
    for (const id of ['stage', 'stages', 'live']) byId(id).textContent = '';
    byId('progress').hidden = true;
  }
  document.title = state.run !== null && state.status.run ? `${state.status.run} – TritonForge` : 'TritonForge';
  if (!inline) byId('live').hidden = state.run === null || stateOfRun(state.status) !== 'running';
}

// One at a time: of what is asked for while a view is made, the last is shown.
let showing = 0;
async function show() {
  const mine = ++showing;
  const {query} = place();
  let {view} = place();
  if (!view || (state.run === null && !['runs', 'compare'].includes(view)))
    view = state.run === null ? 'runs' : 'overview';
  showHead();
  showViews(view);
  let content;
  try {
    content = await viewOf(view, query);
  } catch (error) {
    content = [ element('p', {class : 'warning', role : 'alert'}, error.message) ];
  }
  if (mine !== showing) return;
  const before = document.activeElement && document.activeElement.id;
  byId('content').replaceChildren(...content.filter(Boolean));
  if (before && before !== 'content' && byId(before)) byId(before).focus();
}

// ---- a run ----

// What a run that was left still sends or loads is not taken: `asked` is the run that is wanted now, `opening` counts.
let events = null, asked = null, opening = 0;
function leaveRun() {
  if (events) events.close();
  events = null;
  return ++opening;
}

async function openRun(name, mine) {
  const [status, result, curves] =
      await Promise.all([ 'status', 'result', 'curves' ].map((path) => api(path, {run : name})));
  if (mine !== opening) return;
  Object.assign(state, {run : name, status, result, curves});
  if (!inline) listen(name);
}

let scheduled = false;
const stale = new Set();  // views
const OF_STEPS = [ 'overview', 'curves', 'timeline' ];
const reading = () =>
    document.activeElement !== byId('content') && byId('content').contains(document.activeElement);
function later(...views) {  // many events, one drawing; what is being read stays as it is
  for (const view of views) stale.add(view);
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => {
    scheduled = false;
    if (!events) return;  // the run was left in the meantime
    showHead();
    const {view = '', query} = place();
    const shown = view || 'overview';
    if (shown === 'overview' && byId('roles'))
      byId('roles').replaceChildren(...diagramView(state.status).filter(Boolean));
    const now = stale.has(shown) && !query.has('index');  // one trajectory is read, not listed
    stale.clear();
    if (now && !reading()) show();
  }, 300);
}

function addStep(step) {
  const curve = (state.curves[step.stage] ||= {every : 1, step : [], warnings : [], figures : {}, sums : {}});
  const known = curve.step.lastIndexOf(step.step);
  const row = known >= 0 ? known : curve.step.push(step.step) - 1;
  for (const name of Object.keys(step))
    if (name !== 'step' && isNumber(step[name])) (curve.figures[name] ||= []);
  for (const [name, column] of Object.entries(curve.figures)) {
    while (column.length < curve.step.length) column.push(null);
    if (!isNumber(step[name])) continue;
    curve.sums[name] = (curve.sums[name] || 0) + step[name] - (column[row] || 0);
    column[row] = step[name];
  }
  if (step.warning) curve.warnings.push([ step.step, step.warning ]);
}

function listen(run) {
  const source = new EventSource(`api/events?${new URLSearchParams({run})}`);
  events = source;
  const live = (text) => {
    byId('live').textContent = text;
  };
  const on = (name, take) => source.addEventListener(name, (event) => {
    if (source === events) take(JSON.parse(event.data));
  });
  source.addEventListener('open', () => {
    if (source === events) live('live');
  });
  source.addEventListener('error', () => {
    if (source === events) live('not connected');
  });
  on('status', (status) => {
    state.status = status;
    later();
  });
  const put = (name, value) => {  // at every connection all of it comes: what is known already is not drawn anew
    if (JSON.stringify(state[name]) === JSON.stringify(value)) return;
    state[name] = value;
    later(...OF_STEPS);
  };
  on('result', (result) => put('result', result));
  on('curves', (curves) => put('curves', curves));
  on('step', (step) => {
    addStep(step);
    later(...OF_STEPS);
  });
  on('trajectories', () => later('trajectories'));
}

async function route() {
  const {view, query} = place();
  const wanted = query.has('run') ? query.get('run') : state.many ? null : '';
  const mine = wanted === asked ? opening : leaveRun();
  try {
    if (wanted !== asked) {
      asked = wanted;
      if (wanted === null) state.run = null;
      else await openRun(wanted, mine);
    }
    if (mine !== opening || state.run !== wanted) return;  // whoever loads the wanted one shows it
  } catch (error) {
    if (mine !== opening) return;
    asked = undefined;  // the next address tries again
    byId('content').replaceChildren(element('p', {class : 'warning', role : 'alert'}, error.message));
    return;
  }
  await show();
  if (lastView !== null && view !== lastView && !reading()) byId('content').focus({preventScroll : true});
  lastView = view;
}
let lastView = null;

// Keys: / searches, j and k go through a list, digits are the links of the top line.
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName))
    return;
  const links = [...document.querySelectorAll('nav a') ];
  if (event.key === '/' && byId('search')) {
    event.preventDefault();
    byId('search').focus();
  } else if (/^[1-9]$/.test(event.key) && links[event.key - 1]) {
    links[event.key - 1].click();
  } else if (event.key === 'j' || event.key === 'k') {
    const rows = [...document.querySelectorAll('.rows a.row') ];
    const now = rows.findIndex((row) => row.getAttribute('aria-current') === 'true');
    const next = rows[Math.min(rows.length - 1, Math.max(0, now + (event.key === 'j' ? 1 : -1)))];
    if (next) next.click();
  }
});

async function start() {
  theme();
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    byId('content').focus();
  });
  if (inline) byId('live').textContent = 'report';
  try {
    const [runs, help] = await Promise.all([ api('runs'), api('figures') ]);
    Object.assign(state, {many : runs.many, help});
  } catch (error) {
    byId('content').replaceChildren(element('p', {class : 'warning', role : 'alert'}, error.message));
    return;
  }
  window.addEventListener('hashchange', route);
  await route();
  if (!inline)
    setInterval(() => {
      showHead();
      if (byId('roles') && stateOfRun(state.status) === 'silent') later();
    }, 5000);  // silence is no event
}
start();
