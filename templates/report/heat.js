// The heat map of every scenario under every config, and one small map a config. Drawn when they come near the window.
heurgen.views.forEach(function (view) {
  var page = view.page, map = heurgen.map, HEAD = 16, SIDE = 34;

  function heatmap(target) {
    var heat = page.heat, order = heurgen.list(heat.order), shipped = heurgen.list(heat.shipped);
    var values = heat.configs.map(heurgen.list), cells;
    var columns = shipped.length, rows = order.length, column = {};
    shipped.forEach(function (config, c) { if (config >= 0) { column[config] = c; } });
    var cw = Math.max(4, Math.min(16, Math.floor(1000 / columns))), ch = Math.max(2, Math.min(10, Math.floor(480 / rows)));
    target.width = SIDE + columns * cw;
    target.height = HEAD + rows * ch;
    var at = [0, 0];

    function cellAt(r, c) {
      cells = cells || heat.cells.map(heurgen.unpacked);
      return cells[r][c];
    }

    function leafOf(r) { return view.s.leaf[order[r]]; }

    function draw() {
      var context = target.getContext("2d"), shades = [], small = document.createElement("canvas");
      for (var level = 0; level < 6; level++) { shades.push(heurgen.rgb("--s" + level)); }
      shades.push(heurgen.rgb("--ink"), heurgen.rgb("--raised"));
      small.width = columns;
      small.height = rows;
      var image = small.getContext("2d").createImageData(columns, rows);
      for (var r = 0; r < rows; r++) {
        for (var c = 0; c < columns; c++) {
          image.data.set(shades[cellAt(r, c)], 4 * (r * columns + c));
          image.data[4 * (r * columns + c) + 3] = 255;
        }
      }
      small.getContext("2d").putImageData(image, 0, 0);
      context.clearRect(0, 0, target.width, target.height);
      context.imageSmoothingEnabled = false;
      context.drawImage(small, SIDE, HEAD, columns * cw, rows * ch);
      context.strokeStyle = context.fillStyle = heurgen.colour("--ink");
      for (r = 0; r < rows; r++) {
        var choice = column[view.leafConfig[leafOf(r)]];
        if (choice !== undefined) {
          context.strokeRect(SIDE + choice * cw + 0.5, HEAD + r * ch + 0.5, cw - 1, Math.max(1, ch - 1));
        }
        if (r && leafOf(r) !== leafOf(r - 1)) { context.fillRect(SIDE - 6, HEAD + r * ch, columns * cw + 6, 0.6); }
      }
      names(context);
    }

    // Tags of the configs in use above their columns, numbers of the leaves beside their rows, where they have room.
    function names(context) {
      context.font = "11px system-ui, sans-serif";
      context.textAlign = "center";
      var end = 0, first = 0, low = 0;
      shipped.forEach(function (config, c) {
        var x = SIDE + (c + 0.5) * cw, half = config < 0 ? 0 : context.measureText(heurgen.tag(config)).width / 2;
        if (config < 0 || x - half < end) { return; }
        context.fillText(heurgen.tag(config), x, HEAD - 5);
        end = x + half + 3;
      });
      context.textAlign = "right";
      for (var r = 1; r <= rows; r++) {
        if (r < rows && leafOf(r) === leafOf(first)) { continue; }
        var y = HEAD + (first + r) / 2 * ch;
        if (y - 5 >= low) { context.fillText(leafOf(first) + 1, SIDE - 8, y + 4); low = y + 6; }
        first = r;
      }
    }

    function word(cell) {
      if (cell === 6) { return "failed"; }
      if (cell === 7) { return "not measured"; }
      return cell < 5 ? "at most " + map.LEVELS[cell] + "×" : "above 1.5×";
    }

    function configText(c) {
      return heat.parameters.map(function (name, p) { return name + "=" + values[p][c]; }).join(" ");
    }

    function tell(event) {
      var box = target.getBoundingClientRect(), sx = box.width / target.width, sy = box.height / target.height;
      if (event) {
        at = [Math.floor(((event.clientX - box.left) / sx - SIDE) / cw), Math.floor(((event.clientY - box.top) / sy - HEAD) / ch)];
      }
      at = [Math.min(columns - 1, Math.max(0, at[0])), Math.min(rows - 1, Math.max(0, at[1]))];
      var config = shipped[at[0]], text = word(cellAt(at[1], at[0])) + (config >= 0 ? ", config " + heurgen.tag(config) : "") +
        ": " + configText(at[0]) + ". " + map.label(view, order[at[1]]);
      var x = event ? event.clientX : box.left + (SIDE + at[0] * cw) * sx, y = event ? event.clientY : box.top + (HEAD + at[1] * ch) * sy;
      heurgen.tip.show(text, x, y);
      target.setAttribute("aria-label", text);
    }

    target.addEventListener("mousemove", tell);
    target.addEventListener("mouseout", heurgen.tip.hide);
    target.addEventListener("blur", heurgen.tip.hide);
    target.addEventListener("keydown", function (event) {
      var step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      if (!step) { return; }
      at = [at[0] + step[0], at[1] + step[1]];
      tell(null);
      event.preventDefault();
    });
    heurgen.whenSeen(target, draw);
  }

  // Where a config is chosen (filled) and where it would win (ringed), over the two features of the map.
  function multiple(target) {
    var config = Number(target.getAttribute("data-c"));
    function draw() {
      var context = target.getContext("2d"), w = target.width, h = target.height, i;
      var kinds = [[], [], []];
      for (i = 0; i < view.s.leaf.length; i++) {
        var chosen = view.leafConfig[view.s.leaf[i]] === config;
        kinds[chosen ? 1 : 0].push(i);
        if (view.s.wins[i] === config) { kinds[2].push(i); }
      }
      context.clearRect(0, 0, w, h);
      kinds.forEach(function (members, kind) {
        var radius = [2, 4, 5.5][kind];
        context.beginPath();
        members.forEach(function (i) {
          var x = 8 + map.placed(view, view.axes[0], i) * (w - 16), y = h - 8 - map.placed(view, view.axes[1], i) * (h - 16);
          context.moveTo(x + radius, y);
          context.arc(x, y, radius, 0, 7);
        });
        if (kind === 2) {
          context.strokeStyle = heurgen.colour("--ink");
          context.lineWidth = 1.4;
          context.stroke();
        } else {
          context.fillStyle = heurgen.colour(kind ? "--c" + config % 8 : "--line");
          context.fill();
        }
      });
    }
    var seen = false;
    heurgen.whenSeen(target, function () { seen = true; draw(); });
    view.moved.push(function () { if (seen) { draw(); } });
  }

  var canvas = view.section.querySelector(".heat canvas");
  if (canvas && page.heat) { heatmap(canvas); }
  Array.prototype.forEach.call(view.section.querySelectorAll(".multiple canvas"), multiple);
});
