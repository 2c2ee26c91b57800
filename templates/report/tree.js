// One tree a parameter: lists in lists, made when the reader unfolds them.
(function () {
  function element(name, kind, text) {
    var found = document.createElement(name);
    if (kind) { found.className = kind; }
    if (text !== undefined) { found.textContent = text; }
    return found;
  }

  function leaf(text, node) {
    var button = element("button", "leaf", text ? text + ": " : "");
    button.type = "button";
    button.appendChild(element("b", "", node[0]));
    var slow = node[2] === null ? "" : ", " + heurgen.times(node[2]);
    if (node[1] !== null) { button.appendChild(element("small", "", " n " + node[1] + slow)); }
    if (node[3].length) { button.setAttribute("data-l", node[3].join(" ")); }
    return button;
  }

  function branch(text, node) {
    var item = element("li");
    if (typeof node[1] !== "string") { item.appendChild(leaf(text, node)); return item; }
    item.appendChild(element("span", "", text));
    var sides = element("ul");
    sides.appendChild(branch(node[0], node[2]));
    sides.appendChild(branch(node[1], node[3]));
    item.appendChild(sides);
    return item;
  }

  Array.prototype.forEach.call(document.querySelectorAll("details.parameters"), function (details) {
    var page = heurgen.pages[Number(details.getAttribute("data-v"))];
    function grow() {
      var box = details.querySelector(".trees");
      if (box.firstChild) { return; }
      page.trees.forEach(function (tree) {
        var figure = element("figure"), top = element("ul", "branches");
        figure.appendChild(element("figcaption", "", tree.name));
        top.appendChild(branch("every launch", tree.tree));
        figure.appendChild(top);
        box.appendChild(figure);
      });
    }
    details.addEventListener("toggle", function () { if (details.open) { grow(); } });
    window.addEventListener("beforeprint", grow); // a toggle is told of too late for the paper
  });
})();
