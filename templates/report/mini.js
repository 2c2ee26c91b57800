// The map again beside the tree, small: where the scenarios of the leaf lie that is pointed at or held.
heurgen.views.forEach(function (view) {
  var canvas = view.section.querySelector(".mini canvas"), lit = [], seen = false;

  function draw() {
    seen = true;
    var context = canvas.getContext("2d"), w = canvas.width, h = canvas.height;
    context.clearRect(0, 0, w, h);
    context.globalAlpha = lit.length ? 0.35 : 1;
    if (view.found) { context.drawImage(view.canvas, 0, 0, w, h); }
    context.globalAlpha = 1;
    var ink = heurgen.colour("--ink"), soft = heurgen.colour("--soft");
    context.lineWidth = 2;
    context.strokeStyle = heurgen.colour("--paper");
    view.order.forEach(function (i) {
      var on = lit.indexOf(String(view.s.leaf[i])) >= 0;
      if (lit.length && !on) { return; }
      var x = 10 + heurgen.map.placed(view, view.axes[0], i) * (w - 20), y = h - 10 - heurgen.map.placed(view, view.axes[1], i) * (h - 20);
      context.beginPath();
      context.arc(x, y, on ? 9 : 5, 0, 7);
      context.fillStyle = on ? ink : soft;
      context.fill();
      context.stroke();
    });
  }

  heurgen.whenSeen(canvas, draw);
  view.painted.push(function () { if (seen) { draw(); } });
  view.section.addEventListener("lit", function (event) {
    lit = event.detail;
    if (seen) { draw(); }
  });
});
