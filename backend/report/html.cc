// The HTML report: figures, advice and tables stand in the page as text, so they read without scripts and print; the
// script (html_script.h) sorts, filters and draws timeline, roofline and graph from the JSON that stands in the page.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/report/html_assets.h"
#include "backend/report/html_script.h"
#include "backend/report/json.h"
#include "backend/report/render.h"
#include "compiler/support/status.h"

namespace npuc::report {
namespace {

std::string ShapeText(const IoRow &io) {
  std::string out;
  for (const Extent &e : io.shape)
    out += (out.empty() ? "" : ",") + (e.symbol.empty() ? std::to_string(e.value) : Escaped(e.symbol));
  return out;
}

class Page {
public:
  explicit Page(const Report &report) : r(report) {}
  std::string Render();

private:
  template <class... A> void Add(fmt::format_string<A...> f, A &&...a) {
    fmt::format_to(std::back_inserter(out), f, std::forward<A>(a)...);
  }
  void Tile(std::string_view title, const std::string &value, const std::string &note) {
    Add("<div class=\"tile\"><span class=\"dim\">{}</span><b>{}</b><span class=\"dim\">{}</span></div>\n", title, value,
        note);
  }
  // A row of a bar chart: label, bar of `share` of the width, text.
  void Bar(const std::string &label, double share, std::string_view color, const std::string &text) {
    Add("<span class=\"id\">{}</span><div><span style=\"width:{:.1f}%;background:var(--{})\"></span></div><span "
        "class=\"n\">{}</span>\n",
        label, 100 * std::clamp(share, 0.0, 1.0), color, text);
  }
  void Number(int64_t v, const std::string &text) { Add("<td class=\"n\" data-v=\"{}\">{}</td>", v, text); }

  void Summary();
  void Gates();
  void AdviceList();
  void Changes(const std::vector<Advice> &changes);
  void Time();
  void Layers();
  void Roofline();
  void MemoryUse();
  void GraphPicture();
  void Fallbacks();
  void Nodes();
  void Model();
  void Rest();
  std::string Data() const;

  const Report &r;
  std::string out;
};

void Page::Summary() {
  const Coverage &c = r.coverage;
  const Performance &p = r.performance;
  if (p.cycles == 0 && c.nodes_total > 0)
    Add("<p class=\"note\"><b>Nothing runs on the NPU.</b> All {} nodes that compute are host steps, so the figures of "
        "the "
        "NPU below are empty; see <a href=\"#fallbacks\">why</a>{}.</p>\n",
        c.nodes_host, r.advice.empty() ? "" : " and the <a href=\"#advice\">advice</a>");
  Add("<div class=\"tiles\">\n");
  Tile("nodes on the NPU", fmt::format("{:.1f} %", c.node_percent),
       fmt::format("{} NPU, {} host, {} eliminated", c.nodes_npu, c.nodes_host, c.nodes_eliminated));
  Tile("MACs on the NPU", fmt::format("{:.1f} %", c.mac_percent), fmt::format("{} MACs", Grouped(p.macs)));
  Tile("NPU time", fmt::format("{:.3f} ms", p.latency_ms), fmt::format("{} cycles", Grouped(p.cycles)));
  Tile("with host steps", fmt::format("{:.3f} ms", p.latency_total_estimate_ms),
       fmt::format("{:.1f} per second; {} NPU, {} host segments", p.fps, c.npu_segments, c.host_segments));
  if (p.cycles > 0) {
    Tile("efficiency", fmt::format("{:.1f} %", 100 * p.efficiency),
         fmt::format("bound {} cycles", Grouped(static_cast<int64_t>(p.bound_cycles))));
    Tile("MAC array", fmt::format("{:.1f} %", 100 * p.mac_utilization),
         fmt::format("of its peak; flatness {:.2f}, {:.0f} % on padding", p.mac_flatness, 100 * p.padding_waste));
  }
  Tile("DDR traffic", Bytes(p.ddr_read_bytes + p.ddr_write_bytes),
       fmt::format("{} compulsory", Bytes(p.ddr_compulsory_bytes)));
  Tile("SRAM", Bytes(r.memory.sram_peak), fmt::format("of {}", Bytes(r.memory.sram_bytes)));
  std::string parts;
  for (const auto &[part, uj] : p.energy_parts)
    if (p.energy_uj > 0 && uj / p.energy_uj >= 0.005)
      parts += fmt::format("{}{} {:.0f} %", parts.empty() ? "" : ", ", Escaped(part), 100 * uj / p.energy_uj);
  Tile("energy", fmt::format("{:.1f} uJ", p.energy_uj), parts.empty() ? "estimate" : "estimate: " + parts);
  Add("</div>\n");
  if (c.nodes_total == 0)
    return;
  Add("<div class=\"bar\" role=\"img\" aria-label=\"{} NPU, {} host, {} eliminated\">", c.nodes_npu, c.nodes_host,
      c.nodes_eliminated);
  for (auto [n, name] : {std::pair(c.nodes_npu, "npu"), {c.nodes_host, "host"}, {c.nodes_eliminated, "gone"}})
    if (n)
      Add("<span style=\"flex:{};background:var(--{})\"></span>", n, name);
  Add("</div>\n<div class=\"legend\"><span><i style=\"background:var(--npu)\"></i>{} NPU</span><span><i "
      "style=\"background:var(--host)\"></i>{} host</span><span><i style=\"background:var(--gone)\"></i>{} "
      "eliminated</span></div>\n",
      c.nodes_npu, c.nodes_host, c.nodes_eliminated);
}

void Page::Gates() {
  if (r.gates.empty())
    return;
  Add("<h2>Gates</h2>\n<ul>\n");
  for (const GateRow &g : r.gates)
    Add("<li><b class=\"{}\">{}</b> {}: {}</li>\n", g.passed ? "ok" : "bad", g.passed ? "passed" : "failed",
        Escaped(g.gate), Escaped(g.message));
  Add("</ul>\n");
}

void Page::Time() {
  const Performance &p = r.performance;
  if (p.cycles <= 0)
    return;
  Add("<h2 id=\"time\">Where time goes</h2>\n");
  Add("<div class=\"two\"><div><h3>What the cycles waited for</h3>\n<div class=\"bar\" role=\"img\" aria-label=\"{}\">",
      "Cycles by what they waited for");
  auto color = [](const std::string &name) {
    return std::find(kBoundNames.begin(), kBoundNames.end(), name) - kBoundNames.begin();
  };
  for (const auto &[name, cycles] : p.waits)
    Add("<span style=\"flex:{};background:var(--w{})\"></span>", cycles, color(name));
  Add("</div>\n<div class=\"legend\">");
  for (const auto &[name, cycles] : p.waits)
    if (const double percent = 100 * double(cycles) / double(p.cycles); percent >= 0.05)
      Add("<span><i style=\"background:var(--w{})\"></i>{} {:.1f} %</span>", color(name), Escaped(name), percent);
  Add("</div></div>\n<div><h3>Latency against the bounds</h3>\n<div class=\"hbars\">\n");
  const auto total = double(p.cycles);
  for (auto [name, cycles, ink] : {std::tuple("modelled", total, "fg"),
                                   {"array bound", p.array_bound, "MXU"},
                                   {"output-stage bound", p.ppu_bound, "w2"},
                                   {"vector bound", p.vpu_bound, "VPU"},
                                   {"DDR bound", p.ddr_bound, "LD"}})
    Bar(name, cycles / total, ink, Grouped(static_cast<int64_t>(cycles)));
  Add("</div></div></div>\n<h3>Timeline</h3>\n<p class=\"dim\">Modelled cycles on each engine, segments one after "
      "another.");
  for (const auto &[engine, busy] : p.engine_busy)
    Add(" {} is busy {:.1f} %.", engine, 100 * busy);
  Add("</p>\n<div class=\"tools\"><button type=\"button\" id=\"time-in\" aria-label=\"Zoom in\">+</button><button "
      "type=\"button\" id=\"time-out\" aria-label=\"Zoom out\">&minus;</button><button type=\"button\" "
      "id=\"time-all\">all</button><span class=\"dim\">drag to move, Ctrl+wheel or + and &minus; to zoom, click for "
      "the "
      "layer</span></div>\n<canvas id=\"time-canvas\" tabindex=\"0\" role=\"img\" aria-label=\"Timeline of the four "
      "engines, MAC utilisation and SRAM in use; arrow keys move, plus and minus zoom\"></canvas>\n<p "
      "id=\"time-chosen\" "
      "aria-live=\"polite\">&nbsp;</p>\n");
}

void Page::MemoryUse() {
  const Memory &m = r.memory;
  if (m.sram_bytes <= 0)
    return;
  Add("<h2 id=\"sram\">Memory</h2>\n<div class=\"two\"><div class=\"hbars\">\n");
  const double scale = double(std::max({m.sram_bytes, m.sram_peak, m.sram_estimate, m.live_bytes}));
  Bar("SRAM of the target", double(m.sram_bytes) / scale, "fg", Bytes(m.sram_bytes));
  Bar("planned peak", double(m.sram_peak) / scale, "npu", Bytes(m.sram_peak));
  Bar("live tensors, all on chip", double(m.live_bytes) / scale, "LD", Bytes(m.live_bytes));
  Bar("(weights + live) x 1.3", double(m.sram_estimate) / scale, "gone", Bytes(m.sram_estimate));
  Add("</div><p class=\"dim\">DDR: {} of constants, {} arena, {} inputs and outputs. {} travel, {} of that is "
      "compulsory.</p></div>\n",
      Bytes(m.const_bytes), Bytes(m.arena_bytes), Bytes(m.io_bytes),
      Bytes(r.performance.ddr_read_bytes + r.performance.ddr_write_bytes), Bytes(r.performance.ddr_compulsory_bytes));
  if (m.spilled.empty())
    return;
  Add("<details{}><summary>{}{} tensors between NPU layers lie in DDR</summary><ul>\n",
      m.spilled.size() <= 5 ? " open" : "", m.spilled.size() >= 20 ? "At least " : "", m.spilled.size());
  for (const SpilledTensor &t : m.spilled)
    Add("<li>{}: <code>{}</code></li>\n", Bytes(t.bytes), Escaped(t.name));
  Add("</ul></details>\n");
}

void Page::Layers() {
  Add("<h2 id=\"layers\">Layers</h2>\n");
  if (r.layers.empty()) {
    Add("<p>Nothing runs on the NPU.</p>\n");
    return;
  }
  std::vector<const LayerRow *> rows;
  for (const LayerRow &layer : r.layers)
    rows.push_back(&layer);
  std::stable_sort(rows.begin(), rows.end(), [](auto *a, auto *b) { return a->cycles > b->cycles; });
  Add("<h3>The ten that cost most</h3>\n<div class=\"hbars\">\n");
  for (size_t i = 0; i < rows.size() && i < 10 && rows[i]->cycles > 0; ++i)
    Bar(fmt::format("<a href=\"#layer-{}\" title=\"{}\">{}</a>", rows[i]->id, Escaped(rows[i]->name),
                    Escaped(rows[i]->name)),
        rows[0]->cycles ? double(rows[i]->cycles) / double(rows[0]->cycles) : 0,
        rows[i]->engine.empty() ? "gone" : rows[i]->engine,
        fmt::format("{:.1f} %, {}", 100 * rows[i]->share, rows[i]->bound_by));
  Add("</div>\n<h3>All {}</h3>\n<div class=\"tools\"><label>Filter <input type=\"search\" "
      "data-filter=\"layer-table\"></label>"
      "<span class=\"dim\">column heads sort</span></div>\n",
      rows.size());
  Add("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All layers\"><table id=\"layer-table\" "
      "data-sort><thead><tr><th class=\"n\">share</th><th class=\"n\">cycles</th><th>layer</th><th>op</th><th>waits "
      "for</th><th>engine</th><th>dtype</th><th>input</th><th>output</th><th>layouts</th><th class=\"n\">tiles</th><th "
      "class=\"n\">MACs</th><th class=\"n\">array</th><th class=\"n\">padding</th><th class=\"n\">DDR read</th><th "
      "class=\"n\">written</th></tr></thead><tbody>\n");
  for (const LayerRow *l : rows) {
    Add("<tr id=\"layer-{}\"><td class=\"n\" data-v=\"{:.9f}\">{:.1f} %</td>", l->id, l->share, 100 * l->share);
    Number(l->cycles, Grouped(l->cycles));
    Add("<td class=\"id\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"nw\">{}</td><td "
        "class=\"nw\">{}</td><td class=\"nw\">{}</td>",
        Escaped(l->name), Escaped(l->op), l->bound_by, l->engine, l->dtype, fmt::join(l->ifm, "x"),
        fmt::join(l->ofm, "x"),
        l->input_layout == l->output_layout ? l->input_layout : l->input_layout + " to " + l->output_layout);
    Number(l->tiles, Grouped(l->tiles));
    Number(l->macs, l->macs ? Grouped(l->macs) : "");
    Add("<td class=\"n\" data-v=\"{:.9f}\">{}</td>", l->mac_utilization,
        l->macs ? fmt::format("{:.0f} %", 100 * l->mac_utilization) : "");
    Add("<td class=\"n\" data-v=\"{:.9f}\">{}</td>", l->padding_waste,
        l->macs ? fmt::format("{:.0f} %", 100 * l->padding_waste) : "");
    Number(l->ddr_read_bytes, Bytes(l->ddr_read_bytes));
    Number(l->ddr_write_bytes, Bytes(l->ddr_write_bytes));
    Add("</tr>\n");
  }
  Add("</tbody></table></div>\n");
}

void Page::Roofline() {
  if (r.target.macs_per_cycle <= 0 || r.target.ddr_bytes_per_cycle <= 0 ||
      std::none_of(r.layers.begin(), r.layers.end(), [](auto &l) { return l.macs > 0 && l.cycles > 0; }))
    return;
  Add("<h2 id=\"roofline\">Roofline</h2>\n<p class=\"dim\">Each layer with MACs: MACs a cycle (up) against MACs a byte "
      "of "
      "DDR (across); the greater the circle, the more time. The roof is {:.6g} bytes a cycle of DDR and {:.6g} MACs a "
      "cycle.</p>\n<canvas id=\"roof-canvas\" role=\"img\" aria-label=\"Roofline of the layers\"></canvas>\n",
      r.target.ddr_bytes_per_cycle, double(r.target.macs_per_cycle));
}

void Page::GraphPicture() {
  if (r.nodes.empty())
    return;
  Add("<h2 id=\"graph\">The graph</h2>\n<div class=\"legend\"><span><i "
      "style=\"background:var(--npu)\"></i>NPU</span><span><i "
      "style=\"background:var(--host)\"></i>host</span><span><i "
      "style=\"background:var(--gone)\"></i>eliminated</span><span "
      "class=\"dim\">from the inputs to the outputs, line by line; drag to move, Ctrl+wheel or + and &minus; to zoom, "
      "arrow keys "
      "to walk</span></div>\n<div class=\"tools\"><label>Find <input type=\"search\" id=\"graph-search\" "
      "placeholder=\"node, operator or tensor\"></label><span id=\"graph-count\" class=\"dim\" "
      "aria-live=\"polite\"></span>"
      "<button type=\"button\" id=\"graph-in\" aria-label=\"Zoom in\">+</button><button type=\"button\" "
      "id=\"graph-out\" "
      "aria-label=\"Zoom out\">&minus;</button><button type=\"button\" id=\"graph-fit\">all</button><label><input "
      "type=\"checkbox\" id=\"graph-gone\"> eliminated nodes too</label></div>\n<div class=\"graph\"><canvas "
      "id=\"graph-canvas\" tabindex=\"0\" role=\"application\" aria-label=\"The model's nodes by where they run; arrow "
      "keys "
      "walk from node to node\"></canvas><aside id=\"graph-node\" class=\"card\" aria-live=\"polite\"><p "
      "class=\"dim\">Choose a "
      "node: click it, or find it.</p></aside></div>\n");
}

void Page::Fallbacks() {
  if (!r.coverage.nodes_host)
    return;
  Add("<h2 id=\"fallbacks\">Why nodes run on the host</h2>\n<p>");
  std::vector<std::pair<std::string, int64_t>> rules; // nodes that break each, in the order of the model
  for (const NodeRow &n : r.nodes) {
    std::vector<std::string> seen;
    for (const Reason &reason : n.reasons) {
      if (std::find(seen.begin(), seen.end(), reason.rule) != seen.end())
        continue;
      seen.push_back(reason.rule);
      auto have = std::find_if(rules.begin(), rules.end(), [&](auto &x) { return x.first == reason.rule; });
      if (have == rules.end())
        rules.emplace_back(reason.rule, 1);
      else
        ++have->second;
    }
  }
  std::stable_sort(rules.begin(), rules.end(), [](auto &a, auto &b) { return a.second > b.second; });
  for (const auto &[rule, count] : rules)
    Add("<code>{}</code> {} of {} nodes. ", Escaped(rule), count, r.coverage.nodes_host);
  Add("</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"Reasons\"><table "
      "data-sort><thead><tr><th>node</th><th>op</th><th>rule</th>"
      "<th>found</th><th>limit</th><th>actual</th><th>what to do</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < r.nodes.size(); ++i)
    for (const Reason &reason : r.nodes[i].reasons)
      Add("<tr><td class=\"id\"><a "
          "href=\"#graph\" data-node=\"{}\">{}</a></td><td>{}</td><td><code>{}</code></td><td "
          "class=\"why\">{}</td><td>{}</td><td class=\"why\">{}</td><td class=\"why\">{}</"
          "td></tr>\n",
          i, Escaped(r.nodes[i].id), Escaped(r.nodes[i].op), Escaped(reason.rule), Escaped(reason.message),
          Escaped(reason.limit), Escaped(reason.actual), Escaped(reason.help));
  Add("</tbody></table></div>\n<details{}><summary>Host steps ({}), estimated</summary><ul>\n",
      r.performance.host_steps.size() <= 5 ? " open" : "", r.performance.host_steps.size());
  for (const HostStepRow &h : r.performance.host_steps)
    Add("<li>{:.1f} us: {} nodes, {} MACs, {} moved; first node <code>{}</code></li>\n", h.estimated_us, h.nodes.size(),
        Grouped(h.macs), Bytes(h.bytes), h.nodes.empty() ? "" : Escaped(h.nodes[0]));
  Add("</ul></details>\n");
}

void Page::Nodes() {
  Add("<h2 id=\"nodes\">Nodes</h2>\n<div class=\"tools\"><label>Filter <input type=\"search\" "
      "data-filter=\"node-table\"></label><span class=\"dim\">every node of the model once</span></div>\n<div "
      "class=\"scroll\" "
      "tabindex=\"0\" role=\"region\" aria-label=\"All nodes\"><table id=\"node-table\" "
      "data-sort><thead><tr><th>node</th><th>op</th><th>verdict</th><th>precision</th><th>layer</th><th "
      "class=\"n\">MACs</th><th>reasons</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < r.nodes.size(); ++i) {
    const NodeRow &n = r.nodes[i];
    Add("<tr id=\"node-{0}\"><td class=\"id\"><a href=\"#graph\" data-node=\"{0}\">{1}</a></td><td>{2}</td><td "
        "class=\"{3}\">{3}</td><td>{4}</td>",
        i, Escaped(n.id), Escaped(n.op), n.verdict, n.precision);
    if (n.layer >= 0 && n.layer < int64_t(r.layers.size()))
      Add("<td class=\"id\"><a href=\"#layer-{}\">{}</a></td>", n.layer, Escaped(r.layers[size_t(n.layer)].name));
    else
      Add("<td></td>");
    Number(n.macs, n.macs ? Grouped(n.macs) : "");
    Add("<td>");
    for (size_t k = 0; k < n.reasons.size(); ++k)
      Add("{}{}", k ? "; " : "", Escaped(n.reasons[k].message));
    Add("</td></tr>\n");
  }
  Add("</tbody></table></div>\n");
}

void Page::Changes(const std::vector<Advice> &changes) {
  Add("<ul class=\"advice\">\n");
  const double now = r.performance.latency_total_estimate_ms;
  for (const Advice &a : changes) {
    Add("<li class=\"card\">");
    if (a.kind == "fixed-shape")
      Add("<span class=\"gain ok\">{} nodes to the NPU</span>", a.nodes_to_npu);
    else if (now > 0 && a.predicted_latency_ms > 0)
      Add("<span class=\"gain {}\">{:+.1f} % time</span>", a.predicted_gain_cycles >= 0 ? "ok" : "bad",
          100 * (a.predicted_latency_ms / now - 1));
    Add("<span class=\"kind\">{}</span>{}", Escaped(a.kind), Escaped(a.message));
    if (a.kind != "fixed-shape")
      Add("<span class=\"dim\">{} cycles then, {:.3f} ms in all.</span>", Grouped(a.predicted_cycles),
          a.predicted_latency_ms);
    if (!a.apply.empty())
      Add("<code>{}</code>", Escaped(a.apply));
    Add("</li>\n");
  }
  Add("</ul>\n");
}

void Page::AdviceList() {
  if (r.advice.empty() && r.tried.empty() && r.warnings.empty())
    return;
  Add("<h2 id=\"advice\">Advice</h2>\n");
  for (const std::string &w : r.warnings)
    Add("<p class=\"note\">Warning: {}</p>\n", Escaped(w));
  if (!r.advice.empty()) {
    Add("<p class=\"dim\">Each change was compiled: what it says is what the changed model has.</p>\n");
    Changes(r.advice);
  }
  if (!r.tried.empty()) {
    Add("<details><summary>{} that would not pay</summary>\n",
        r.tried.size() == 1 ? "1 change" : fmt::format("{} changes", r.tried.size()));
    Changes(r.tried);
    Add("</details>\n");
  }
}

// What the model is like: checklist, operators, fusions, layouts.
void Page::Model() {
  if (r.operators.empty())
    return;
  Add("<h2 id=\"model\">The model</h2>\n<div class=\"two\"><div><h3>Checklist</h3>\n<ul class=\"checks\">\n");
  for (const CheckRow &c : r.checklist)
    Add("<li><b class=\"{}\">{}</b><b>{}</b>: {}{}{}</li>\n", c.ok ? "ok" : "host", c.ok ? "&#10003;" : "!",
        Escaped(c.check), Escaped(c.found), c.help.empty() ? "" : ". ", Escaped(c.help));
  Add("</ul></div>\n<div><h3>Operators</h3>\n<div class=\"scroll\" style=\"max-height:20rem\" tabindex=\"0\" "
      "role=\"region\" "
      "aria-label=\"Operators\"><table data-sort><thead><tr><th>op</th><th class=\"n\">nodes</th><th "
      "class=\"n\">NPU</th><th "
      "class=\"n\">host</th><th class=\"n\">gone</th><th>suspect</th></tr></thead><tbody>\n");
  for (const OperatorRow &o : r.operators) {
    Add("<tr><td>{}</td>", Escaped(o.op));
    for (int64_t n : {o.nodes, o.npu, o.host, o.eliminated})
      Number(n, n ? std::to_string(n) : "");
    Add("<td>{}</td></tr>\n", Escaped(o.suspect));
  }
  Add("</tbody></table></div></div></div>\n<h3>Fusions and layouts</h3>\n<p>");
  for (const FusionRow &f : r.fusions)
    Add("{} {}, ", Escaped(f.pass), f.matched);
  Add("{} layout conversions put in, {} transposes removed.</p>\n", r.layout.conversions, r.layout.transposes_removed);
  if (!r.near_fusions.empty()) {
    Add("<details><summary>{} fusions that nearly happened</summary><ul>\n", r.near_fusions.size());
    for (const RemarkRow &n : r.near_fusions)
      Add("<li><code>{}</code> {}</li>\n", Escaped(n.node), Escaped(n.message));
    Add("</ul></details>\n");
  }
  if (!r.layout.transposes.empty()) {
    Add("<details><summary>{} Transposes of the model, {} of them move data</summary><ul>\n",
        r.layout.transposes.size(),
        std::count_if(r.layout.transposes.begin(), r.layout.transposes.end(), [](auto &t) { return t.moves_data; }));
    for (const TransposeRow &t : r.layout.transposes)
      Add("<li><code>{}</code> {}: {}</li>\n", Escaped(t.node), t.moves_data ? "moves data" : "is free",
          Escaped(t.why));
    Add("</ul></details>\n");
  }
}

void Page::Rest() {
  Add("<h2 id=\"made\">How it was made</h2>\n<p><code>{}</code></p>\n<ul>\n", Escaped(r.reproducibility.command));
  Add("<li>model <code>{}</code> SHA-256 <code>{}</code></li>\n", Escaped(r.model.file), r.model.sha256);
  Add("<li>target <code>{}</code> SHA-256 <code>{}</code></li>\n", Escaped(r.target.name), r.target.sha256);
  Add("<li>npuc {}</li>\n", Escaped(r.tool.version));
  for (const IoRow &io : r.inputs)
    Add("<li>input <code>{}</code>: {} [{}], {}</li>\n", Escaped(io.name), io.dtype, ShapeText(io), Bytes(io.bytes));
  for (const IoRow &io : r.outputs)
    Add("<li>output <code>{}</code>: {} [{}], {}</li>\n", Escaped(io.name), io.dtype, ShapeText(io), Bytes(io.bytes));
  for (const InputFile &f : r.reproducibility.files)
    Add("<li>--{} <code>{}</code> SHA-256 <code>{}</code></li>\n", Escaped(f.option), Escaped(f.file), f.sha256);
  if (!r.reproducibility.binary_sha256.empty())
    Add("<li>binary SHA-256 <code>{}</code></li>\n", r.reproducibility.binary_sha256);
  Add("</ul>\n");
}

std::string Page::Render() {
  Summary();
  Gates();
  AdviceList();
  Time();
  Layers();
  Roofline();
  MemoryUse();
  GraphPicture();
  Fallbacks();
  Nodes();
  Model();
  Rest();
  const std::string body = std::exchange(out, {});
  Add("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n"
      "<title>{} on {}: npuc report</title>\n<style>{}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To "
      "the content</a>\n",
      Escaped(r.model.file), Escaped(r.target.name), kHtmlStyle);
  Add("<header><h1>{} on {}</h1>\n<p class=\"dim\">{}; {} MHz, {} MACs a cycle, {} SRAM, {:.6g} DDR bytes a "
      "cycle</p></header>\n",
      Escaped(r.model.file), Escaped(r.target.name), Escaped(r.target.description), r.target.clock_mhz,
      Grouped(r.target.macs_per_cycle), Bytes(r.target.sram_bytes), r.target.ddr_bytes_per_cycle);
  Add("<nav aria-label=\"Sections\"><div>");
  for (auto [id, text] : {std::pair("advice", "Advice"),
                          {"time", "Time"},
                          {"layers", "Layers"},
                          {"roofline", "Roofline"},
                          {"sram", "Memory"},
                          {"graph", "Graph"},
                          {"fallbacks", "Fallbacks"},
                          {"nodes", "Nodes"},
                          {"model", "Model"},
                          {"made", "How it was made"}})
    if (body.find(fmt::format("<h2 id=\"{}\"", id)) != std::string::npos)
      Add("<a href=\"#{}\">{}</a>", id, text);
  Add("</div></nav>\n<main id=\"main\">\n{}</main>\n<script type=\"application/json\" id=\"report\">{}</script>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      body, Data(), kHtmlScript);
  return out;
}

// The report but for what is measured. A '<' stands only in strings of JSON; escaped, none can end the element.
std::string Page::Data() const {
  Report bare = r;
  bare.compile = {};
  std::string data;
  for (char c : ToJson(bare))
    c == '<' ? data += "\\u003c" : data += c;
  return data;
}

} // namespace

std::string RenderHtml(const Report &report) {
  return Page(report).Render();
}

} // namespace npuc::report
