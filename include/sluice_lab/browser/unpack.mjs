// Unpacks the browser below TMPDIR. The package unpacks the libraries, too, where it takes itself to be in a cloud.
import chromium from "@sparticuz/chromium";

await chromium.executablePath();
