// Where the page's data comes from: the dashboard's API, or the data inside a report.

const inline = byId('inline-data') ? JSON.parse(byId('inline-data').textContent) : null;

// A report has the filters of the API for the trajectories that it holds.
function filtered(rows, query) {
  const asked = (name) => query[name] || '';
  const has = (text) => String(text).toLowerCase().includes(asked('search').toLowerCase());
  const found = rows.filter(
      (row) => (!asked('search') || has(row.id) || has(row.problem_id)) &&
          (!asked('problem') || row.problem_id === asked('problem')) &&
          (!asked('outcome') || row.outcome === asked('outcome')) &&
          (!asked('flag') || row.flags.includes(asked('flag'))) &&
          (!asked('turns') || row.turns === Number(asked('turns'))) &&
          (!asked('first_step') || row.step >= Number(asked('first_step'))) &&
          (!asked('last_step') || row.step <= Number(asked('last_step'))));
  const order = asked('order');
  if (order === 'oldest') found.sort((a, b) => a.index - b.index);
  if (order === 'reward' || order === 'speedup') found.sort((a, b) => b[order] - a[order]);
  return found;
}

function fromReport(path, query) {
  const page = (rows) =>
      rows.slice(Number(query.offset || 0), Number(query.offset || 0) + Number(query.limit || 50));
  switch (path) {
    case 'runs':
      return {many : false, runs : []};
    case 'trajectories': {
      const found = filtered(inline.trajectories.rows, query);
      return {...inline.trajectories, matched : found.length, rows : page(found)};
    }
    case 'trajectory':
      return inline.whole_trajectories.find((one) => one.index === Number(query.index));
    case 'problem':
      return inline.problem_sources[query.id] || null;
    case 'problems': {
      const found = inline.problems.rows.filter(
          (row) => row.problem_id.toLowerCase().includes((query.search || '').toLowerCase()));
      return {...inline.problems, matched : found.length, rows : page(found)};
    }
    default:
      return inline[path];
  }
}

// The dashboard's clock, by which a run's times are: this machine's may be another one.
let ahead = 0;  // ms
const serverTime = () => (Date.now() + ahead) / 1000;

async function api(path, query = {}) {
  const given =
      Object.fromEntries(Object.entries(query).filter(([, value ]) => value !== '' && value !== undefined));
  if (inline) return fromReport(path, given);
  const reply = await fetch(`api/${path}?${new URLSearchParams(given)}`);
  const date = Date.parse(reply.headers.get('date'));
  if (isNumber(date)) ahead = date - Date.now();
  const body = await reply.json();
  if (!reply.ok)
    throw Object.assign(new Error(body.error ? body.error.message : reply.statusText), {status : reply.status});
  return body;
}
