// The names of private members that nothing else of a module has, so that the minifier may shorten them.
//
// Members that are private by the language (`#name`) would be shortened by themselves, but are out of reach through a
// proxy, and what an application keeps in the state of some frameworks is used through one.
import { dirname, join } from "node:path";
import ts from "typescript";

/** A pattern for `mangleProps` of esbuild, of all that a module begins with or knows types of: others make it no longer. */
export function privateNames(config, entry) {
  const { options, fileNames } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(config, ts.sys.readFile).config,
    ts.sys,
    dirname(config),
  );
  const program = ts.createProgram([join(dirname(config), entry)], options);
  const checker = program.getTypeChecker();
  const [hidden, shown] = [new Set(), new Set()];
  const isPrivate = (symbol) =>
    !!symbol?.declarations?.some((declared) => ts.getCombinedModifierFlags(declared) & ts.ModifierFlags.Private);
  const note = (name, symbol) => (isPrivate(symbol) ? hidden : shown).add(name.text);
  const visit = (node) => {
    const { parent } = node;
    if (ts.isStringLiteralLike(node)) shown.add(node.text);
    if (ts.isIdentifier(node)) {
      if (ts.isBindingElement(parent) && ts.isObjectBindingPattern(parent.parent) && (parent.propertyName ?? parent.name) === node) {
        note(node, checker.getTypeAtLocation(parent.parent).getProperty(node.text));
      } else if (ts.isShorthandPropertyAssignment(parent)) {
        shown.add(node.text);
      } else if (ts.isParameter(parent)) {
        if (ts.isParameterPropertyDeclaration(parent, parent.parent)) note(node, parent.symbol);
      } else if (parent.name === node && (ts.isPropertyAccessExpression(parent) || ts.isClassElement(parent) || ts.isTypeElement(parent) || ts.isObjectLiteralElement(parent))) {
        note(node, checker.getSymbolAtLocation(node));
      }
    }
    ts.forEachChild(node, visit);
  };
  for (const source of program.getSourceFiles()) if (fileNames.includes(source.fileName)) visit(source);
  const names = [...hidden].filter((name) => !shown.has(name)).sort();
  return new RegExp(`^(${names.join("|")})$`);
}
