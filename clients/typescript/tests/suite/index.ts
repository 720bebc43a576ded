/** All tests, for both places they run in. */
import "./addresses.js";
import "./connection.js";
import "./exchanges.js";
import "./operations.js";
import "./pieces.js";
import "./real.js";
import "./real-operations.js";
import "./topics.js";

export { run } from "../harness.js";
