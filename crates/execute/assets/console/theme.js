// The theme chosen earlier, set before anything is drawn; main.js lets the reader change it.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("cellar-theme");
  } catch {
    // Storage is refused: the system's theme holds.
  }
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
  }
})();
