// A folder of runs: an index with search, and runs compared; what a run is made of.

function bestRow(rows) {
  return (Array.isArray(rows) ? rows : [])
      .reduce((best, row) => (!best || row.pass_at_1 >= best.pass_at_1 ? row : best), null);
}

const stateName = (run) => (stateOfRun(run) === 'silent' ? 'dead' : stateOfRun(run));
// Where a run is, or where and why it ended.
function stageText(run, state) {
  const {done, total} = run.progress || {};
  const at = [ run.stage, total && `${done} of ${total}` ].filter(Boolean).join(' ');
  return state === 'finished' ? '' : [ at, run.reason ].filter(Boolean).join(': ');
}

const picked = new Set();
async function runsView(query) {
  const answer = await api('runs');
  const search = (query.get('search') || '').toLowerCase();
  const found = answer.runs.filter(
      (run) => [run.name, run.stage, stateName(run)].some(
          (text) => String(text || '').toLowerCase().includes(search)));
  const compare = element('button', {
    type : 'button',
    click : () => {
      location.hash = link('compare', {runs : [...picked ].join(',')});
    }
  });
  const count = () => {
    compare.textContent = `compare ${picked.size} of them`;
    compare.disabled = picked.size < 2 || picked.size > 8;
  };
  count();
  const rows = found.map((run) => {
    const best = bestRow(run.rows), state = stateOfRun(run);
    const box = element('input', {
      type : 'checkbox',
      'aria-label' : `compare ${run.name}`,
      checked : picked.has(run.name),
      change : () => {
        if (box.checked)
          picked.add(run.name);
        else
          picked.delete(run.name);
        count();
      }
    });
    return element(
        'tr', {}, element('td', {}, box),
        element('th', {scope : 'row'}, element('a', {href : link('overview', {run : run.name})}, run.name)),
        element('td', {}, badge(stateName(run), STATE_COLOURS[state] || 'grey')),
        element('td', {class : 'number'}, best ? percent(best.pass_at_1) : ''),
        element('td', {class : 'number'}, best ? intervalText(intervalOf(best)) : ''),
        element('td', {}, best ? `${labelOf(best)}, ${plural(best.turns, 'turn')}` : ''),
        element('td', {}, stageText(run, state)),
        element('td', {}, clock(run.started)));
  });
  const go = (value) => {
    location.hash = link('runs', {search : value});
  };
  return [
    element(
        'form', {class : 'filters', submit : (event) => event.preventDefault()},
        field('search', query.get('search') || '', go, {placeholder : 'name, stage or state', id : 'search'}),
        compare),
    section(
        plural(found.length, 'run'),
        table(
            'runs',
            [
              [ 'pick', '' ], [ 'run', '' ], [ 'state', '' ], [ 'best pass@1', 'number' ],
              [ '95 % interval', 'number' ], [ 'of', '' ], [ 'stage', '' ], [ 'started', '' ]
            ],
            rows))
  ];
}

async function compareView(query, redraw) {
  const [answer, help] = await Promise.all([ api('compare', {runs : query.get('runs') || ''}), api('figures') ]);
  const runs = answer.runs.map((name, i) => ({name, curves : answer.curves[i]}));
  const names = answer.runs.map((name) => [name, '']);
  const cell = (value) => element('td', {}, value === null ? '–' : String(value));
  const results = answer.results.map(
      (result) => element(
          'tr', {}, element('th', {scope : 'row'}, `${labelOf(result)}, ${plural(result.turns, 'turn')}`),
          result.rows.map(
              (row) =>
                  element('td', {}, row ? `${percent(row.pass_at_1)} (${intervalText(intervalOf(row))})` : '–'))));
  const keys = answer.recipe.map(
      (line) => element('tr', {}, element('th', {scope : 'row'}, line.key), line.values.map(cell)));
  const legend = element(
      'p', {class : 'note legend'},
      runs.map(
          (run, i) =>
              [element('span', {class : `key k${i % COLOURS}`}),
               element('a', {href : link('overview', {run : run.name})}, run.name), ' ']));
  return [
    legend,
    results.length ? section('Results', table('results', [ [ 'pass@1 (95 % interval)', '' ], ...names ], results)) :
                     null,
    section(
        'Recipe keys that differ',
        keys.length ? table('recipe keys that differ', [ [ 'key', '' ], ...names ], keys) :
                      note('None: the recipes are alike.')),
    ...curvesView(runs, help, redraw)
  ];
}

async function aboutView(query) {
  const run = query.get('run') || '';
  const about = await api('about', {run});
  const origin = about.origin && typeof about.origin === 'object' ? about.origin : {};
  const facts = Object.entries(origin).map(
      ([ name, value ]) => element(
          'tr', {}, element('th', {scope : 'row'}, name),
          element('td', {class : 'wide'}, typeof value === 'object' ? JSON.stringify(value) : String(value))));
  const log = element('div', {});
  const read = async (role) => {
    try {
      log.replaceChildren(
          role ? block(`the end of ${role}.log`, (await api('log', {run, role})).text || '(empty)') : '');
    } catch (error) {
      log.replaceChildren(note(error.message));
    }
  };
  const logs = inline || about.logs.length === 0 ?
      null :
      section(
          'Logs',
          element(
              'div', {class : 'filters'},
              chooser('role', '', [ [ '', 'choose one' ], ...about.logs.map((name) => [name, name]) ], read)),
          log);
  return [
    logs, section('Recipe', block('recipe.yaml, with all defaults', about.recipe || '(none)')),
    facts.length ? section('How to make it again', table('origin', [ [ 'what', '' ], [ 'value', '' ] ], facts)) :
                   null
  ];
}
