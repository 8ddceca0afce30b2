// The theme that Airflow's pages have: they keep the reader's choice in the storage that this page shares.
(() => {
  const root = document.documentElement;
  const apply = () => {
    let wanted = null;
    try {
      wanted = localStorage.getItem("theme");
    } catch {
      // The browser keeps nothing here: the system's theme it is.
    }
    if (wanted === "light" || wanted === "dark") root.dataset.theme = wanted;
    else delete root.dataset.theme;
  };
  apply();
  addEventListener("storage", (event) => {
    if (event.key === "theme" || event.key === null) apply();
  });
})();
