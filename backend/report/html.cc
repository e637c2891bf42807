// The HTML report: everything stands in the page as text, tables and SVG, so it reads without scripts and prints; the
// script only filters and sorts. Pictures carry a title on each shape and a text summary.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/report/html_assets.h"
#include "backend/report/render.h"
#include "compiler/support/status.h"

namespace npuc::report {
namespace {

constexpr const char *kEngines[] = {"LD", "ST", "MXU", "VPU"};
constexpr int kWidth = 1180; // of pictures, in px

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
  // Marks every 1/8 of `total` cycles.
  void CycleAxis(int y, int x0, int width, int64_t total) {
    for (int i = 0; i <= 8; ++i) {
      const int x = x0 + width * i / 8;
      Add("<line class=\"axis\" x1=\"{0}\" y1=\"0\" x2=\"{0}\" y2=\"{1}\"/><text x=\"{0}\" y=\"{2}\" "
          "text-anchor=\"{3}\">{4}</text>\n",
          x, y, y + 13,
          i == 0   ? "start"
          : i == 8 ? "end"
                   : "middle",
          Grouped(total * i / 8));
    }
  }

  void Summary();
  void Gates();
  void TimelinePicture();
  void SramPicture();
  void Layers();
  void Roofline();
  void GraphPicture();
  void Fallbacks();
  void Nodes();
  void AdviceList();
  void Rest();

  const Report &r;
  std::string out;
};

void Page::Summary() {
  const Coverage &c = r.coverage;
  const Performance &p = r.performance;
  Add("<div class=\"tiles\">\n");
  Tile("nodes on the NPU", fmt::format("{:.1f} %", c.node_percent),
       fmt::format("{} NPU, {} host, {} eliminated", c.nodes_npu, c.nodes_host, c.nodes_eliminated));
  Tile("MACs on the NPU", fmt::format("{:.1f} %", c.mac_percent), fmt::format("{} MACs", Grouped(p.macs)));
  Tile("NPU time", fmt::format("{:.3f} ms", p.latency_ms),
       fmt::format("{} cycles, {:.1f} per second", Grouped(p.cycles), p.fps));
  Tile("with host steps", fmt::format("{:.3f} ms", p.latency_total_estimate_ms),
       fmt::format("{} NPU and {} host segments", c.npu_segments, c.host_segments));
  Tile("efficiency", fmt::format("{:.1f} %", 100 * p.efficiency),
       fmt::format("bound {} cycles", Grouped(static_cast<int64_t>(p.bound_cycles))));
  Tile("MAC array", fmt::format("{:.1f} %", 100 * p.mac_utilization), "of its peak");
  Tile("DDR traffic", Bytes(p.ddr_read_bytes + p.ddr_write_bytes),
       fmt::format("{} compulsory", Bytes(p.ddr_compulsory_bytes)));
  Tile("SRAM", Bytes(r.memory.sram_peak), fmt::format("of {}", Bytes(r.memory.sram_bytes)));
  Tile("energy", fmt::format("{:.1f} uJ", p.energy_uj), "estimate");
  Add("</div>\n");
  if (const int64_t total = c.nodes_total; total > 0) {
    Add("<div class=\"bar\" role=\"img\" aria-label=\"{} NPU, {} host, {} eliminated\">", c.nodes_npu, c.nodes_host,
        c.nodes_eliminated);
    for (auto [n, name] : {std::pair(c.nodes_npu, "npu"), {c.nodes_host, "host"}, {c.nodes_eliminated, "gone"}})
      if (n)
        Add("<span style=\"flex:{};background:var(--{})\" title=\"{} {}\"></span>", n, name, n, name);
    Add("</div>\n");
  }
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

void Page::TimelinePicture() {
  const int64_t total = r.performance.cycles;
  if (total <= 0 || r.timeline.engines.empty())
    return;
  Add("<h2 id=\"time\">Where time goes</h2>\n<p class=\"dim\">Modelled cycles on each engine, segments one after "
      "another. ");
  for (const auto &[engine, busy] : r.performance.engine_busy)
    Add("{} is busy {:.1f} % of the time. ", engine, 100 * busy);
  const int row = 26, x0 = 44, width = kWidth - x0 - 10;
  Add("</p>\n<div class=\"scroll\"><svg width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"Timeline of the four "
      "engines\">\n",
      kWidth, 4 * row + 18);
  CycleAxis(4 * row, x0, width, total);
  for (int e = 0; e < 4; ++e) {
    Add("<text x=\"4\" y=\"{}\">{}</text>\n", e * row + 17, kEngines[e]);
    auto it = std::find_if(r.timeline.engines.begin(), r.timeline.engines.end(),
                           [&](auto &x) { return x.first == kEngines[e]; });
    if (it == r.timeline.engines.end())
      continue;
    Add("<g fill=\"var(--{})\">\n", kEngines[e]);
    for (const auto &span : it->second) {
      if (span.size() != 3)
        continue;
      const double x = x0 + double(width) * double(span[0]) / double(total);
      const double w = std::max(0.5, double(width) * double(span[1] - span[0]) / double(total));
      const bool known = span[2] >= 0 && span[2] < int64_t(r.layers.size());
      Add("<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"18\" opacity=\"{}\"><title>{}: cycles {} to "
          "{}</title></rect>\n",
          x, e * row + 4, w, span[2] % 2 ? "0.72" : "1", known ? Escaped(r.layers[size_t(span[2])].name) : "", span[0],
          span[1]);
    }
    Add("</g>\n");
  }
  Add("</svg></div>\n");
}

void Page::SramPicture() {
  const int64_t total = r.performance.cycles;
  if (total <= 0 || r.timeline.sram.empty() || r.memory.sram_bytes <= 0)
    return;
  Add("<h2 id=\"sram\">SRAM over time</h2>\n<p class=\"dim\">Peak {} of {}.</p>\n", Bytes(r.memory.sram_peak),
      Bytes(r.memory.sram_bytes));
  const int x0 = 44, width = kWidth - x0 - 10, height = 110;
  Add("<div class=\"scroll\"><svg width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"Bytes of SRAM in use over "
      "time\">\n",
      kWidth, height + 18);
  CycleAxis(height, x0, width, total);
  std::string path = fmt::format("M{},{}", x0, height);
  double y = height;
  for (const auto &point : r.timeline.sram) {
    if (point.size() != 2)
      continue;
    const double x = x0 + double(width) * double(point[0]) / double(total);
    path += fmt::format("L{:.2f},{:.2f}", x, y);
    y = height - (height - 4) * double(point[1]) / double(r.memory.sram_bytes);
    path += fmt::format("L{:.2f},{:.2f}", x, y);
  }
  Add("<path d=\"{}L{},{:.2f}L{},{}Z\" fill=\"var(--LD)\" opacity=\"0.6\"/>", path, x0 + width, y, x0 + width, height);
  Add("<text x=\"2\" y=\"12\">{}</text></svg></div>\n", Bytes(r.memory.sram_bytes));
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
  Add("<p class=\"dim\">{} layers, the dearest first; column heads sort. <label>Filter <input "
      "data-filter=\"layer-table\"></label></p>\n",
      rows.size());
  Add("<div class=\"scroll\" tabindex=\"0\"><table id=\"layer-table\" data-sort><thead><tr><th "
      "class=\"n\">share</th><th class=\"n\">cycles</th><th>layer</th>"
      "<th>op</th><th>dtype</th><th>input</th><th>output</th><th>layouts</th><th class=\"n\">tiles</th><th "
      "class=\"n\">MACs</th><th class=\"n\">array</th>"
      "<th class=\"n\">DDR read</th><th class=\"n\">DDR written</th><th>bound by</th></tr></thead><tbody>\n");
  for (const LayerRow *l : rows) {
    auto number = [&](int64_t v, const std::string &text) { Add("<td class=\"n\" data-v=\"{}\">{}</td>", v, text); };
    Add("<tr id=\"layer-{}\"><td class=\"n\" data-v=\"{:.9f}\">{:.1f} %</td>", l->id, l->share, 100 * l->share);
    number(l->cycles, Grouped(l->cycles));
    Add("<td class=\"id\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{} to {}</td>", Escaped(l->name),
        Escaped(l->op), l->dtype, fmt::join(l->ifm, "x"), fmt::join(l->ofm, "x"), l->input_layout, l->output_layout);
    number(l->tiles, Grouped(l->tiles));
    number(l->macs, Grouped(l->macs));
    Add("<td class=\"n\" data-v=\"{:.9f}\">{}</td>", l->mac_utilization,
        l->macs ? fmt::format("{:.0f} %", 100 * l->mac_utilization) : "");
    number(l->ddr_read_bytes, Bytes(l->ddr_read_bytes));
    number(l->ddr_write_bytes, Bytes(l->ddr_write_bytes));
    Add("<td>{}</td></tr>\n", l->bound_by);
  }
  Add("</tbody></table></div>\n");
}

// Both axes logarithmic: MACs a byte of DDR against MACs a cycle.
void Page::Roofline() {
  const double peak = double(r.target.macs_per_cycle), ddr = r.target.ddr_bytes_per_cycle;
  std::vector<const LayerRow *> rows;
  for (const LayerRow &l : r.layers)
    if (l.macs > 0 && l.cycles > 0)
      rows.push_back(&l);
  if (rows.empty() || peak <= 0 || ddr <= 0)
    return;
  const double x_lo = -1, x_hi = 5, y_lo = -1, y_hi = std::ceil(std::log10(peak)) + 0.2;
  const int w = 640, h = 300, left = 50;
  auto px = [&](double v) {
    return left + (w - left - 10) * (std::clamp(std::log10(v), x_lo, x_hi) - x_lo) / (x_hi - x_lo);
  };
  auto py = [&](double v) {
    return 6 + (h - 30) * (1 - (std::clamp(std::log10(v), y_lo, y_hi) - y_lo) / (y_hi - y_lo));
  };
  Add("<h2 id=\"roofline\">Roofline</h2>\n<p class=\"dim\">Each layer with MACs: MACs a byte of DDR (across) against "
      "MACs a cycle (up). The roof is {:.6g} "
      "bytes a cycle of DDR and {:.6g} MACs a cycle.</p>\n<svg width=\"{}\" height=\"{}\" role=\"img\" "
      "aria-label=\"Roofline of the layers\">\n",
      ddr, peak, w, h);
  for (int d = int(x_lo); d <= int(x_hi); ++d)
    Add("<line class=\"axis\" x1=\"{0:.1f}\" y1=\"6\" x2=\"{0:.1f}\" y2=\"{1}\"/><text x=\"{0:.1f}\" y=\"{2}\" "
        "text-anchor=\"middle\">1e{3}</text>\n",
        px(std::pow(10, d)), h - 24, h - 8, d);
  for (int d = int(y_lo); d <= int(y_hi); ++d)
    Add("<line class=\"axis\" x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\"/><text x=\"4\" "
        "y=\"{3:.1f}\">1e{4}</text>\n",
        py(std::pow(10, d)), left, w - 10, py(std::pow(10, d)) + 4, d);
  const double ridge = peak / ddr, far = std::pow(10, x_hi), near = std::pow(10, x_lo);
  Add("<path d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}L{:.1f},{:.1f}\" fill=\"none\" stroke=\"var(--fg)\"/>\n", px(near),
      py(near * ddr), px(ridge), py(peak), px(far), py(peak));
  for (const LayerRow *l : rows) {
    const double bytes = double(std::max<int64_t>(1, l->ddr_read_bytes + l->ddr_write_bytes));
    Add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"var(--MXU)\" opacity=\"0.7\"><title>{}: {:.3g} MACs a "
        "byte, {:.3g} MACs a cycle</title></circle>\n",
        px(double(l->macs) / bytes), py(double(l->macs) / double(l->cycles)), 3 + 9 * std::sqrt(l->share),
        Escaped(l->name), double(l->macs) / bytes, double(l->macs) / double(l->cycles));
  }
  Add("</svg>\n");
}

// Layered by the longest way from an input: `nodes` is in the order of the model, definitions first.
void Page::GraphPicture() {
  constexpr size_t kMost = 4000;
  if (r.nodes.empty() || r.nodes.size() > kMost)
    return;
  std::vector<int> rank(r.nodes.size()), column(r.nodes.size()), used;
  for (size_t i = 0; i < r.nodes.size(); ++i) {
    for (int64_t from : r.nodes[i].inputs)
      if (from >= 0 && from < int64_t(i))
        rank[i] = std::max(rank[i], rank[size_t(from)] + 1);
    if (size_t(rank[i]) >= used.size())
      used.resize(size_t(rank[i]) + 1);
    column[i] = used[size_t(rank[i])]++;
  }
  const int step = 18, box = 12, widest = *std::max_element(used.begin(), used.end());
  auto x = [&](size_t i) { return 6 + rank[i] * step; };
  auto y = [&](size_t i) { return 6 + column[i] * step; };
  Add("<h2 id=\"graph\">The graph</h2>\n<p class=\"dim\"><span class=\"npu\">NPU</span>, <span "
      "class=\"host\">host</span>, "
      "<span class=\"eliminated\">eliminated</span>; from the inputs (left) to the outputs (right). A box leads to its "
      "row.</p>\n"
      "<div class=\"scroll\" tabindex=\"0\"><svg width=\"{}\" height=\"{}\" role=\"group\" aria-label=\"The graph's "
      "nodes by where they run\">\n",
      12 + int(used.size()) * step, 12 + widest * step);
  std::string edges;
  for (size_t i = 0; i < r.nodes.size(); ++i)
    for (int64_t from : r.nodes[i].inputs)
      if (from >= 0 && from < int64_t(i))
        edges += fmt::format("M{},{}L{},{}", x(size_t(from)) + box, y(size_t(from)) + box / 2, x(i), y(i) + box / 2);
  Add("<path class=\"edge\" d=\"{}\"/>\n", edges);
  for (size_t i = 0; i < r.nodes.size(); ++i) {
    const NodeRow &n = r.nodes[i];
    Add("<a href=\"#node-{}\" tabindex=\"-1\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\" "
        "fill=\"var(--{})\"><title>{} ({}): {}</title></rect></a>\n",
        i, x(i), y(i), box, box, n.verdict == "eliminated" ? "gone" : n.verdict, Escaped(n.id), Escaped(n.op),
        n.verdict);
  }
  Add("</svg></div>\n");
}

void Page::Fallbacks() {
  if (!r.coverage.nodes_host)
    return;
  Add("<h2 id=\"fallbacks\">Why nodes run on the host</h2>\n<div class=\"scroll\" tabindex=\"0\"><table "
      "data-sort><thead><tr><th>node</th><th>op</th><th>rule</th>"
      "<th>found</th><th>limit</th><th>actual</th><th>what to do</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < r.nodes.size(); ++i)
    for (const Reason &reason : r.nodes[i].reasons)
      Add("<tr><td class=\"id\"><a "
          "href=\"#node-{}\">{}</a></td><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{}</"
          "td></tr>\n",
          i, Escaped(r.nodes[i].id), Escaped(r.nodes[i].op), Escaped(reason.rule), Escaped(reason.message),
          Escaped(reason.limit), Escaped(reason.actual), Escaped(reason.help));
  Add("</tbody></table></div>\n<p class=\"dim\">Host steps, estimated:</p>\n<ul>\n");
  for (const HostStepRow &h : r.performance.host_steps)
    Add("<li>{:.1f} us: {} nodes, {} MACs, {} moved; first node <code>{}</code></li>\n", h.estimated_us, h.nodes.size(),
        Grouped(h.macs), Bytes(h.bytes), h.nodes.empty() ? "" : Escaped(h.nodes[0]));
  Add("</ul>\n");
}

void Page::Nodes() {
  Add("<h2 id=\"nodes\">Nodes</h2>\n<p class=\"dim\">Every node of the model once. <label>Filter <input "
      "data-filter=\"node-table\"></label></p>\n"
      "<div class=\"scroll\" tabindex=\"0\"><table id=\"node-table\" "
      "data-sort><thead><tr><th>node</th><th>op</th><th>verdict</th><th>precision</th><th>layer</th>"
      "<th class=\"n\">MACs</th></tr></thead><tbody>\n");
  for (size_t i = 0; i < r.nodes.size(); ++i) {
    const NodeRow &n = r.nodes[i];
    Add("<tr id=\"node-{}\"><td class=\"id\">{}</td><td>{}</td><td class=\"{}\">{}</td><td>{}</td>", i, Escaped(n.id),
        Escaped(n.op), n.verdict, n.verdict, n.precision);
    if (n.layer >= 0 && n.layer < int64_t(r.layers.size()))
      Add("<td class=\"id\"><a href=\"#layer-{}\">{}</a></td>", n.layer, Escaped(r.layers[size_t(n.layer)].name));
    else
      Add("<td></td>");
    Add("<td class=\"n\" data-v=\"{}\">{}</td></tr>\n", n.macs, n.macs ? Grouped(n.macs) : "");
  }
  Add("</tbody></table></div>\n");
}

void Page::AdviceList() {
  if (r.advice.empty() && r.warnings.empty())
    return;
  Add("<h2 id=\"advice\">Advice</h2>\n<ul>\n");
  for (const Advice &a : r.advice) {
    Add("<li>");
    if (!a.node.empty())
      Add("<code>{}</code>: ", Escaped(a.node));
    Add("{}", Escaped(a.message));
    if (a.predicted_gain_cycles > 0)
      Add(" <span class=\"dim\">(about {} cycles)</span>", Grouped(a.predicted_gain_cycles));
    Add("</li>\n");
  }
  for (const std::string &w : r.warnings)
    Add("<li>Warning: {}</li>\n", Escaped(w));
  Add("</ul>\n");
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
  for (const FusionRow &f : r.fusions)
    Add("<li>pass {}: {} matches</li>\n", Escaped(f.pass), f.matched);
  Add("<li>layout: {} conversions, {} transposes removed</li>\n</ul>\n", r.layout.conversions,
      r.layout.transposes_removed);
}

std::string Page::Render() {
  Summary();
  Gates();
  AdviceList();
  TimelinePicture();
  Layers();
  Roofline();
  SramPicture();
  GraphPicture();
  Fallbacks();
  Nodes();
  Rest();
  const std::string body = std::exchange(out, {});
  Add("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n"
      "<title>{} on {}: npuc report</title>\n<style>{}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To "
      "the content</a>\n",
      Escaped(r.model.file), Escaped(r.target.name), kHtmlStyle);
  Add("<h1>{} on {}</h1>\n<p class=\"dim\">{}; {} MHz, {} MACs a cycle, {} SRAM, {:.6g} DDR bytes a cycle</p>\n",
      Escaped(r.model.file), Escaped(r.target.name), Escaped(r.target.description), r.target.clock_mhz,
      Grouped(r.target.macs_per_cycle), Bytes(r.target.sram_bytes), r.target.ddr_bytes_per_cycle);
  Add("<nav aria-label=\"Sections\">");
  for (auto [id, text] : {std::pair("time", "Time"),
                          {"layers", "Layers"},
                          {"roofline", "Roofline"},
                          {"sram", "SRAM"},
                          {"graph", "Graph"},
                          {"fallbacks", "Fallbacks"},
                          {"nodes", "Nodes"},
                          {"advice", "Advice"},
                          {"made", "How it was made"}})
    if (body.find(fmt::format("<h2 id=\"{}\"", id)) != std::string::npos)
      Add("<a href=\"#{}\">{}</a>", id, text);
  Add("</nav>\n<main id=\"main\">\n{}</main>\n<script>{}</script>\n</body>\n</html>\n", body, kHtmlScript);
  return out;
}

} // namespace

std::string RenderHtml(const Report &report) {
  return Page(report).Render();
}

} // namespace npuc::report
