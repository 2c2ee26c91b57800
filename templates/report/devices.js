// Devices of one vendor side by side: the same map for each, filled where their selectors disagree.
Array.prototype.forEach.call(document.querySelectorAll(".devices"), function (box) {
  var canvases = Array.prototype.slice.call(box.querySelectorAll("canvas"));
  var views = canvases.map(function (canvas) { return heurgen.views[Number(canvas.getAttribute("data-v"))]; });
  var first = views[0], WIDE = 96, TALL = 74;

  // One device's tree over the scenarios of all, so that every map has the same ground.
  function pooled(view) {
    var page = Object.assign({}, view.page, { scales: first.page.scales });
    function joined(read) { return views.reduce(function (all, other) { return all.concat(read(other)); }, []); }
    var columns = first.s.columns.map(function (_, c) { return joined(function (other) { return other.s.columns[c]; }); });
    var s = { leaf: joined(function (other) { return other.s.leaf; }), columns: columns };
    return { page: page, axes: first.axes, tested: view.tested, s: s, places: {}, rows: joined(function (other) { return other.rows; }) };
  }

  // Numbers of the configs that the devices choose, cell by cell, and the texts that they stand for.
  function answers() {
    var texts = [], maps = views.map(function (view) {
      var chosen = heurgen.map.regions(pooled(view), WIDE, TALL).chosen;
      var names = view.page.configs.map(function (config) { return heurgen.pairs(view.page.parameters, config); });
      return Array.prototype.map.call(chosen, function (config) {
        var at = texts.indexOf(names[config]);
        return at < 0 ? texts.push(names[config]) - 1 : at;
      });
    });
    var differ = maps[0].map(function (config, cell) { return maps.some(function (map) { return map[cell] !== config; }); });
    return { texts: texts, maps: maps, differ: differ };
  }

  function fill(canvas, map, differ) {
    var context = canvas.getContext("2d"), w = canvas.width / WIDE, h = canvas.height / TALL;
    context.clearRect(0, 0, canvas.width, canvas.height);
    map.forEach(function (config, cell) {
      context.fillStyle = heurgen.colour(differ[cell] ? "--c" + config % 8 : "--raised");
      context.fillRect(Math.floor(cell % WIDE * w), Math.floor(Math.floor(cell / WIDE) * h), Math.ceil(w), Math.ceil(h));
    });
  }

  function legend(found) {
    var list = box.querySelector("ul"), used = {};
    list.textContent = "";
    found.maps.forEach(function (map) { map.forEach(function (config, cell) { if (found.differ[cell]) { used[config] = true; } }); });
    Object.keys(used).forEach(function (config) {
      var item = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = "swatch b" + config % 8;
      item.appendChild(swatch);
      item.appendChild(document.createTextNode(found.texts[config]));
      list.appendChild(item);
    });
  }

  function draw() {
    var found = answers(), names = [0, 1].filter(function (i) { return first.axes[i] >= 0; }).map(function (i) {
      return first.page.columns[first.axes[i]].name + (i ? " up" : " across");
    });
    var share = found.differ.filter(Boolean).length / found.differ.length;
    box.querySelector(".told").textContent = "Over " + names.join(", ") + ", as on the first map: they choose differently on " +
      Math.round(100 * share) + " % of it. Coloured: the config, where they differ; pale: where they agree.";
    canvases.forEach(function (canvas, i) { fill(canvas, found.maps[i], found.differ); });
    legend(found);
  }

  var seen = false;
  heurgen.whenSeen(box, function () { seen = true; draw(); });
  first.moved.push(function () { if (seen) { draw(); } });
});
