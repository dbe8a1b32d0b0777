// Applies the chosen colours before the first paint. Not a module: a module would run after it.
"use strict";
try {
  const chosen = localStorage.getItem("holdfast-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is blocked: the colours of the system are used.
}
