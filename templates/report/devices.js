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
    var order = [];
    maps.forEach(function (map) {
      map.forEach(function (config, cell) { if (differ[cell] && order.indexOf(config) < 0) { order.push(config); } });
    });
    return { texts: texts, maps: maps, differ: differ, order: order };
  }

  // Of the configs where devices differ, the second eight are paler and the third darker: no two of 24 look the same.
  function shade(found, config) {
    var place = found.order.indexOf(config), round = Math.floor(place / 8) % 3, share = round ? 0.5 : 0;
    var other = heurgen.rgb(round === 1 ? "--paper" : "--ink");
    return "rgb(" + heurgen.rgb("--c" + place % 8).map(function (x, k) {
      return Math.round(x * (1 - share) + other[k] * share);
    }).join(", ") + ")";
  }

  function fill(canvas, map, found) {
    var context = canvas.getContext("2d"), w = canvas.width / WIDE, h = canvas.height / TALL;
    context.clearRect(0, 0, canvas.width, canvas.height);
    var shades = {}, pale = heurgen.colour("--raised");
    found.order.forEach(function (config) { shades[config] = shade(found, config); });
    map.forEach(function (config, cell) {
      context.fillStyle = found.differ[cell] ? shades[config] : pale;
      context.fillRect(Math.floor(cell % WIDE * w), Math.floor(Math.floor(cell / WIDE) * h), Math.ceil(w), Math.ceil(h));
    });
  }

  function legend(found) {
    var list = box.querySelector("ul");
    list.textContent = "";
    found.order.forEach(function (config) {
      var item = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = "swatch";
      swatch.style.background = shade(found, config);
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
    canvases.forEach(function (canvas, i) { fill(canvas, found.maps[i], found); });
    legend(found);
  }

  var seen = false;
  heurgen.whenSeen(box, function () { seen = true; draw(); });
  first.moved.push(function () { if (seen) { draw(); } });
});
